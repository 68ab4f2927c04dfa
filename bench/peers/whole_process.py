"""What one look costs in Python, start to end: load, encode, run, print each head's strongest key of the last token."""

import sys

import torch
from transformers import AutoModel, AutoTokenizer

folder, text = sys.argv[1:]
tokenizer = AutoTokenizer.from_pretrained(folder)
model = AutoModel.from_pretrained(folder, attn_implementation="eager").eval()
ids = tokenizer(text, return_tensors="pt")["input_ids"]
with torch.inference_mode():
    attentions = model(ids, output_attentions=True, use_cache=False).attentions
tokens = tokenizer.convert_ids_to_tokens(ids[0])
for layer, pattern in enumerate(attentions):
    for head, row in enumerate(pattern[0, :, -1]):
        weight, key = row.max(0)
        print(f"L{layer}H{head} {tokens[-1]} -> {tokens[key]} ({float(weight):.2f})")

"""Small requests for each format: `ACCEPTED` by the provider, by name, and `REFUSED`, with the rule that they break.

`PATH` is where they go; an entry of `REFUSED` may name another one. `ENTRIES` is the key of the list that holds the
conversation, and `is_half` says of one of its entries whether it holds calls or results."""

"""Words for people: numbers with their nouns, and what somebody who mistyped a word probably meant."""

"""A catalog behind REST: who asks is known by a token, and may do what grants say."""

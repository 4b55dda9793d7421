"""What becomes of a view's parts as its fact and its dimensions change."""

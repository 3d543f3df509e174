"""From relaxed indicator vectors to clusters."""

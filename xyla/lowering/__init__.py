"""HLO to the runtime program: every buffer explicit, every step concrete."""

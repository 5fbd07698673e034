"""The floor: how close each solver's pass is to the products and memory traffic it cannot avoid."""

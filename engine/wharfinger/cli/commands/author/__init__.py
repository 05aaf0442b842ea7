"""Write policies.

wharf check policies/ && wharf test policies/
"""

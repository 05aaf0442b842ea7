"""`/ui`: the live page of the scheduler, which is read-only. The page contains all its files and connects to no other server.

`pages` has the routes and the feed of server-sent events, `page_content` what the page shows, and `static` the files. Start with `pages`.
"""

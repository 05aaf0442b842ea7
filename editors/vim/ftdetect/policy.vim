autocmd BufNewFile,BufRead *.policy setfiletype policy

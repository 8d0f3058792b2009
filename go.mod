module github.com/sagalog/sagalog

go 1.26.0

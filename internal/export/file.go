package export

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/sagalog/sagalog/events"
)

// part writes the rows of one partition into files. A file ends with the day, or when it is full.
type part[R any] struct {
	dir    string
	format Format
	// partition is in the names of the files.
	partition int32
	about     map[string]string
	// most is how many rows a file has at most.
	most int
	// complete is called when a file is complete: the rows before next are in files.
	complete func(next int64) error

	file    *os.File
	name    string
	day     string
	to      rows[R]
	pending []R
	// files is how many files are complete.
	files int64
	rows  int
	bytes int
}

// pendingRows is how many rows are written at once.
const pendingRows = 1000

// add writes a row. next is the offset behind all rows before it.
func (p *part[R]) add(e entry[R], next int64) error {
	day := events.Instant(e.time).String()[:len("2006-01-02")]
	if p.file != nil && (day != p.day || p.rows == p.most) {
		if err := p.end(next); err != nil {
			return err
		}
	}
	if p.file == nil {
		if err := p.begin(day, e.offset); err != nil {
			return err
		}
	}
	p.pending = append(p.pending, e.row)
	p.rows++
	p.bytes += e.bytes
	if p.bytes >= groupBytes {
		p.bytes = 0
		return errors.Join(p.write(), p.to.group())
	}
	if len(p.pending) == pendingRows {
		return p.write()
	}
	return nil
}

func (p *part[R]) write() error {
	err := p.to.write(p.pending)
	clear(p.pending)
	p.pending = p.pending[:0]
	return err
}

func (p *part[R]) begin(day string, offset int64) error {
	dir := filepath.Join(p.dir, "date="+day)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	p.name = filepath.Join(dir, fmt.Sprintf("%05d-%020d.%s", p.partition, offset, p.format))
	file, err := os.Create(p.name + ".partial")
	if err != nil {
		return err
	}
	p.file, p.day, p.rows, p.bytes = file, day, 0, 0
	p.to = newRows[R](p.format, file, p.about)
	return nil
}

// end completes the file. next is the offset behind its rows.
func (p *part[R]) end(next int64) error {
	if p.file == nil {
		return p.complete(next)
	}
	err := errors.Join(p.write(), p.to.close(), p.file.Sync(), p.file.Close())
	p.file = nil
	if err != nil {
		return err
	}
	if err := os.Rename(p.name+".partial", p.name); err != nil {
		return err
	}
	p.files++
	return p.complete(next)
}

// abandon leaves an incomplete file, which the next attempt writes again.
func (p *part[R]) abandon() {
	if p.file != nil {
		p.file.Close()
	}
}

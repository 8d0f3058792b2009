package export

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"

	"github.com/sagalog/sagalog/events"
)

// sink takes the rows of one partition.
type sink[R any] interface {
	// add writes a row. next is the offset behind all rows before it.
	add(e entry[R], next int64) error
	// end completes all files. next is the offset behind their rows.
	end(next int64) error
	// abandon leaves incomplete files, which the next attempt writes again.
	abandon()
}

// days writes the rows of a table whose rows do not come in the order of their days. It keeps the files of a few days open.
type days[R any] struct {
	of   part[R]
	open map[string]*part[R]
	// used are the days whose files are open, the latest used last.
	used []string
}

// openDays bounds the files that are open at a time.
const openDays = 8

func (d *days[R]) add(e entry[R], next int64) error {
	day := dayOf(e.time)
	d.used = append(slices.DeleteFunc(d.used, func(x string) bool { return x == day }), day)
	p := d.open[day]
	if p == nil {
		if len(d.used) > openDays {
			oldest := d.used[0]
			d.used = d.used[1:]
			old := d.open[oldest]
			delete(d.open, oldest)
			if err := old.end(next); err != nil {
				return err
			}
		}
		one := d.of
		p = &one
		d.open[day] = p
	}
	return p.add(e, next)
}

func (d *days[R]) end(next int64) error {
	for _, day := range d.used {
		if err := d.open[day].end(next); err != nil {
			return err
		}
	}
	clear(d.open)
	d.used = nil
	return nil
}

func (d *days[R]) abandon() {
	for _, p := range d.open {
		p.abandon()
	}
}

// dayOf returns the day of a time.
func dayOf(millis int64) string { return events.Instant(millis).String()[:len("2006-01-02")] }

// part writes the rows of one partition into files. A file ends with the day, or when it is full.
type part[R any] struct {
	dir    string
	format Format
	// partition is in the names of the files.
	partition int32
	about     map[string]string
	// most is how many rows a file has at most.
	most int
	// complete, if it is set, is called when a file is complete: the rows before next are in files.
	complete func(next int64) error

	file    *os.File
	name    string
	day     string
	to      rows[R]
	pending []R
	// files counts the complete files.
	files *atomic.Int64
	rows  int
	bytes int
}

// pendingRows is how many rows are written at once.
const pendingRows = 1000

// add writes a row. next is the offset behind all rows before it.
func (p *part[R]) add(e entry[R], next int64) error {
	day := dayOf(e.time)
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
	p.pending = append(p.pending, *e.row)
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
		return p.passed(next)
	}
	err := errors.Join(p.write(), p.to.close(), p.file.Sync(), p.file.Close())
	p.file = nil
	if err != nil {
		return err
	}
	if err := os.Rename(p.name+".partial", p.name); err != nil {
		return err
	}
	p.files.Add(1)
	return p.passed(next)
}

// abandon leaves an incomplete file, which the next attempt writes again.
func (p *part[R]) abandon() {
	if p.file != nil {
		p.file.Close()
	}
}

func (p *part[R]) passed(next int64) error {
	if p.complete == nil {
		return nil
	}
	return p.complete(next)
}

package export

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// Formats that are one file cannot be written by partitions, which are read at the same time. So each partition has its traces in a section, a line each,
// and the sections become the file in the order of the partitions when all are complete.

// sectionsDir has the sections, below the directory of the export.
const sectionsDir = ".sections"

func sectionFile(dir string, partition int32) string {
	return filepath.Join(dir, sectionsDir, fmt.Sprintf("%05d.jsonl", partition))
}

// section takes the traces of one partition.
type section[R any] struct {
	name string
	file *os.File
	to   *bufio.Writer
}

// open begins the section, and drops what an export that was interrupted left of it.
func (s *section[R]) open() (err error) {
	if s.file != nil {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(s.name), 0o755); err != nil {
		return err
	}
	if s.file, err = os.Create(s.name); err != nil {
		return err
	}
	s.to = bufio.NewWriterSize(s.file, 1<<20)
	return nil
}

func (s *section[R]) add(e entry[R], _ int64) error {
	if err := s.open(); err != nil {
		return err
	}
	b, err := json.Marshal(e.row)
	if err != nil {
		return err
	}
	_, err = s.to.Write(append(b, '\n'))
	return err
}

func (s *section[R]) end(int64) error {
	if err := s.open(); err != nil {
		return err
	}
	return errors.Join(s.to.Flush(), s.file.Sync())
}

func (s *section[R]) abandon() {
	if s.file != nil {
		s.file.Close()
	}
}

// mined is a format for process mining. Its file is in the directory of its name.
type mined struct {
	name, file string
	// of is what write counts.
	of string
	// write writes the file. all goes through the traces from the first, as often as it is called.
	write func(to io.Writer, all func(each func(*trace) error) error) (int64, error)
}

// inOneFile exports traces, and writes them to one file.
func inOneFile(ctx context.Context, cfg Config, m mined) (Result, error) {
	dir, written := filepath.Join(cfg.Dir, m.name), int64(0)
	file := filepath.Join(dir, m.file)
	cfg.Format, cfg.NoPayloads = Format(m.name), true
	res, err := export(ctx, cfg, m.name, func(p int32) (maker[trace], error) { return newTraces(&cfg, m.name, p) }, func(p *plan) (err error) {
		written, err = writeWhole(file, func(to io.Writer) (int64, error) {
			return m.write(to, func(each func(*trace) error) error {
				for i := range p.Parts {
					if err := eachTrace(ctx, sectionFile(dir, int32(i)), each); err != nil {
						return err
					}
				}
				return nil
			})
		})
		return err
	})
	if err != nil {
		return res, err
	}
	res.File, res.Of = file, m.of
	if res.Already {
		if _, err := os.Stat(file); err != nil {
			return res, fmt.Errorf("the export in %s was complete, and its file cannot be found: begin again in another directory: %w", dir, err)
		}
	} else {
		res.Rows, res.Files = written, 1
	}
	return res, os.RemoveAll(filepath.Join(dir, sectionsDir))
}

// eachTrace reads a section.
func eachTrace(ctx context.Context, name string, each func(*trace) error) error {
	file, err := os.Open(name)
	if err != nil {
		return fmt.Errorf("a section of the export cannot be read: begin again in another directory: %w", err)
	}
	defer file.Close()
	for in := json.NewDecoder(bufio.NewReaderSize(file, 1<<20)); ; {
		var t trace
		switch err := in.Decode(&t); {
		case err == io.EOF:
			return nil
		case err != nil:
			return fmt.Errorf("read %s: %w", name, err)
		case ctx.Err() != nil:
			return ctx.Err()
		}
		if err := each(&t); err != nil {
			return err
		}
	}
}

// writeWhole writes a file that has its name only when it is complete.
func writeWhole(name string, write func(io.Writer) (int64, error)) (n int64, err error) {
	file, err := os.Create(name + ".partial")
	if err != nil {
		return 0, err
	}
	to := bufio.NewWriterSize(file, 1<<20)
	n, err = write(to)
	if err = errors.Join(err, to.Flush(), file.Sync(), file.Close()); err != nil {
		return 0, err
	}
	return n, os.Rename(name+".partial", name)
}

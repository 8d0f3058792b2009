package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/sagalog/sagalog/events"
	"github.com/spf13/cobra"
)

// The formats of -o.
const (
	formatTable = "table"
	formatJSON  = "json"
	formatJSONL = "jsonl"
)

var formats = []string{formatTable, formatJSON, formatJSONL}

// printer prints data to stdout in the format of -o.
type printer struct {
	format string
	out    io.Writer
	err    io.Writer
}

// row is one line of a table.
type row []string

// one prints a single document; table formats it for a person.
func (p *printer) one(doc json.RawMessage, table func(w io.Writer) error) error {
	switch p.format {
	case formatJSON:
		return p.indented(doc)
	case formatJSONL:
		return p.line(doc)
	}
	return table(p.out)
}

// list prints documents as an array, as lines, or as a table.
func (p *printer) list(docs []json.RawMessage, head row, cells func(doc json.RawMessage) (row, error)) error {
	switch p.format {
	case formatJSON:
		if docs == nil {
			docs = []json.RawMessage{}
		}
		b, err := json.Marshal(docs)
		if err != nil {
			return err
		}
		return p.indented(b)
	case formatJSONL:
		for _, d := range docs {
			if err := p.line(d); err != nil {
				return err
			}
		}
		return nil
	}
	rows := make([]row, 0, len(docs))
	for _, d := range docs {
		r, err := cells(d)
		if err != nil {
			return err
		}
		rows = append(rows, r)
	}
	return table(p.out, head, rows)
}

func (p *printer) indented(doc json.RawMessage) error {
	var b bytes.Buffer
	if err := json.Indent(&b, bytes.TrimSpace(doc), "", "  "); err != nil {
		return err
	}
	b.WriteByte('\n')
	_, err := p.out.Write(b.Bytes())
	return err
}

func (p *printer) line(doc json.RawMessage) error {
	var b bytes.Buffer
	if err := json.Compact(&b, doc); err != nil {
		return err
	}
	b.WriteByte('\n')
	_, err := p.out.Write(b.Bytes())
	return err
}

// columnGap is the space between two columns of a table.
const columnGap = 2

// table aligns all rows by the cells of a terminal, which text/tabwriter cannot do: it counts characters, and some are two
// cells wide.
func table(out io.Writer, head row, rows []row) error {
	all := rows
	if head != nil {
		all = append([]row{head}, rows...)
	}
	var widths []int
	for _, r := range all {
		for i, cell := range r {
			r[i] = Printable(cell)
			if i == len(widths) {
				widths = append(widths, 0)
			}
			widths[i] = max(widths[i], columns(r[i]))
		}
	}
	var b strings.Builder
	for _, r := range all {
		var line strings.Builder
		for i, cell := range r {
			line.WriteString(padded(cell, widths[i]+columnGap))
		}
		b.WriteString(strings.TrimRight(line.String(), " ") + "\n")
	}
	_, err := io.WriteString(out, b.String())
	return err
}

// Printable escapes control characters in text from others (IDs, labels, reasons, errors), so that they cannot control the
// terminal.
func Printable(s string) string {
	return strings.Map(func(r rune) rune {
		if r < 0x20 || (r >= 0x7f && r < 0xa0) {
			return '\uFFFD'
		}
		return r
	}, s)
}

func (p *printer) note(format string, args ...any) { fmt.Fprintf(p.err, format+"\n", args...) }

// decode reads a document of the API into v.
func decode(doc json.RawMessage, v any) error {
	if err := json.Unmarshal(doc, v); err != nil {
		return fmt.Errorf("the engine's answer is not as expected: %w", err)
	}
	return nil
}

// rowOf makes a row of a table from a document of the API.
func rowOf[T any](cells func(T) row) func(json.RawMessage) (row, error) {
	return func(doc json.RawMessage) (row, error) {
		var v T
		err := decode(doc, &v)
		return cells(v), err
	}
}

// instant returns "" for an absent instant.
func instant(i events.Instant) string {
	if i == 0 {
		return ""
	}
	return i.String()
}

// session is the context of a client command.
type session struct {
	*caller
	*printer
	cmd *cobra.Command
}

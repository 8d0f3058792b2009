package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode"

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

// listing says how a list is shown as a table.
type listing struct {
	head  row
	cells func(doc json.RawMessage) (row, error)
	// none is said on standard error if the list is empty. No table has a head and no rows.
	none string
	// cursor is the parameter that continues the list; "cursor" if it is empty.
	cursor string
}

// list prints documents as an array, as lines, or as a table.
func (p *printer) list(docs []json.RawMessage, of listing) error {
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
	if len(docs) == 0 {
		if of.none != "" {
			p.note("%s", of.none)
		}
		return nil
	}
	rows := make([]row, 0, len(docs))
	for _, d := range docs {
		r, err := of.cells(d)
		if err != nil {
			return err
		}
		rows = append(rows, r)
	}
	return table(p.out, of.head, rows)
}

func (p *printer) indented(doc json.RawMessage) error {
	var b bytes.Buffer
	if err := json.Indent(&b, bytes.TrimSpace(doc), "", "  "); err != nil {
		return err
	}
	b.WriteByte('\n')
	_, err := p.out.Write(escaped(b.Bytes()))
	return err
}

func (p *printer) line(doc json.RawMessage) error {
	var b bytes.Buffer
	if err := json.Compact(&b, doc); err != nil {
		return err
	}
	b.WriteByte('\n')
	_, err := p.out.Write(escaped(b.Bytes()))
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

// Printable replaces characters in text from others (IDs, labels, reasons, errors) that would control the terminal, or the
// order in which it shows what follows.
func Printable(s string) string {
	return strings.Map(func(r rune) rune {
		if controls(r) {
			return '\uFFFD'
		}
		return r
	}, s)
}

// printableLines is Printable for a text of several lines.
func printableLines(s string) string {
	lines := strings.Split(s, "\n")
	for i, line := range lines {
		lines[i] = Printable(line)
	}
	return strings.Join(lines, "\n")
}

func controls(r rune) bool { return unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r) }

// escaped escapes what controls a terminal in indented or compact JSON. Below U+0020 JSON has only the line feeds of the
// indentation, and all others can occur only in strings.
func escaped(doc []byte) []byte {
	if bytes.IndexFunc(doc, func(r rune) bool { return r != '\n' && controls(r) }) < 0 {
		return doc
	}
	var b bytes.Buffer
	for _, r := range string(doc) {
		if r != '\n' && controls(r) {
			fmt.Fprintf(&b, "\\u%04x", r)
		} else {
			b.WriteRune(r)
		}
	}
	return b.Bytes()
}

func (p *printer) note(format string, args ...any) {
	fmt.Fprintln(p.err, printableLines(fmt.Sprintf(format, args...)))
}

// decode reads a document of the API into v.
func decode(doc json.RawMessage, v any) error {
	if err := json.Unmarshal(doc, v); err != nil {
		return fmt.Errorf("the engine's answer is not as expected: %w", err)
	}
	return nil
}

// rowOf makes a table row from a document of the API.
func rowOf[T any](cells func(T) row) func(json.RawMessage) (row, error) {
	return func(doc json.RawMessage) (row, error) {
		var v T
		err := decode(doc, &v)
		return cells(v), err
	}
}

// number returns a number, or the text that stands for an absent one.
func number(n *int64, absent string) string {
	if n == nil {
		return absent
	}
	return strconv.FormatInt(*n, 10)
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

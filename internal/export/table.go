package export

import (
	"bufio"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"unsafe"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/compress/zstd"

	"github.com/sagalog/sagalog/events"
)

// Format is a file format.
type Format string

// The formats.
const (
	Parquet Format = "parquet"
	CSV     Format = "csv"
	JSONL   Format = "jsonl"
)

// Formats are all formats.
var Formats = []Format{Parquet, CSV, JSONL}

// A group of rows in a Parquet file has groupRows, or fewer if their text has groupBytes: few enough that a reader skips most of a day and that the writer
// needs little memory, and enough that columns compress. A file has fileRows at most.
const (
	groupRows  = 50_000
	groupBytes = 32 << 20
	fileRows   = 1_000_000
)

// rows takes the rows of one file.
type rows[R any] interface {
	write(list []R) error
	// group ends a group of rows, which a reader can skip.
	group() error
	// close completes the file, and does not close what it was written to.
	close() error
}

// newRows begins a file. about are its metadata, if the format has room for them.
func newRows[R any](f Format, to io.Writer, about map[string]string) rows[R] {
	switch f {
	case CSV:
		w := csv.NewWriter(to)
		return &csvRows[R]{w: w, columns: columnsOf[R]()}
	case JSONL:
		return &jsonRows[R]{w: bufio.NewWriterSize(to, 1<<20), columns: columnsOf[R]()}
	}
	options := []parquet.WriterOption{
		parquet.Compression(&zstd.Codec{Level: zstd.SpeedFastest}), parquet.CreatedBy("sagalog", "1", ""),
	}
	for _, name := range slices.Sorted(maps.Keys(about)) {
		options = append(options, parquet.KeyValueMetadata(name, about[name]))
	}
	return &parquetRows[R]{w: parquet.NewGenericWriter[R](to, options...), columns: columnsOf[R]()}
}

// parquetRows writes rows column by column. To give the library whole rows would be as quick, but then (v0.32.0) some runs of absent values are written
// as zeros: see TestAbsentValuesStayAbsent.
type parquetRows[R any] struct {
	w       *parquet.GenericWriter[R]
	columns []column
	// values are those of one column, of some rows.
	values []parquet.Value
	// rows is how many the group has.
	rows int
}

// pageRows is how many rows a column gets at once. The library ends a page between two calls, so a page is larger than asked for by the text of so
// many rows at most.
const pageRows = 100

func (p *parquetRows[R]) write(list []R) error {
	for len(list) > 0 {
		n := min(len(list), pageRows, groupRows-p.rows)
		for i, w := range p.w.ColumnWriters() {
			p.values = p.values[:0]
			for r := range list[:n] {
				p.values = append(p.values, p.columns[i].value(reflect.ValueOf(&list[r]).Elem().Field(i), i))
			}
			if _, err := w.WriteRowValues(p.values); err != nil {
				return err
			}
		}
		list = list[n:]
		if p.rows += n; p.rows == groupRows {
			if err := p.group(); err != nil {
				return err
			}
		}
	}
	clear(p.values) // they point into the rows
	return nil
}

func (p *parquetRows[R]) group() error {
	p.rows = 0
	return p.w.Flush()
}

func (p *parquetRows[R]) close() error { return p.w.Close() }

// value is what a cell of the i-th column holds. It shares the text of the row.
func (c *column) value(v reflect.Value, i int) parquet.Value {
	present := 0
	if c.optional {
		if v.IsZero() {
			return parquet.NullValue().Level(0, 0, i)
		}
		present = 1
	}
	if v.Kind() == reflect.Pointer {
		v = v.Elem()
	}
	var x parquet.Value
	switch v.Kind() {
	case reflect.String:
		text := v.String()
		x = parquet.ByteArrayValue(unsafe.Slice(unsafe.StringData(text), len(text))) // the library only reads it
	case reflect.Int32:
		x = parquet.Int32Value(int32(v.Int()))
	case reflect.Int64:
		x = parquet.Int64Value(v.Int())
	case reflect.Bool:
		x = parquet.BooleanValue(v.Bool())
	case reflect.Float64:
		x = parquet.DoubleValue(v.Float())
	default:
		panic("export: a column of type " + v.Kind().String())
	}
	return x.Level(0, present, i)
}

// column is a column of a table, from the tag of its member.
type column struct {
	name  string
	index int
	// instant says that its number is a time, json that its text is JSON, and optional that its zero value means that it is absent.
	instant, json, optional bool
}

func columnsOf[R any]() (list []column) {
	t := reflect.TypeFor[R]()
	for i := range t.NumField() {
		name, options, _ := strings.Cut(t.Field(i).Tag.Get("parquet"), ",")
		list = append(list, column{
			name: name, index: i, instant: strings.Contains(options, "timestamp"), json: t.Field(i).Tag.Get("is") == "json",
			optional: strings.Contains(options, "optional") || t.Field(i).Type.Kind() == reflect.Pointer, // a pointer needs no option
		})
	}
	return list
}

// text returns the value of a column as text; false if it is absent.
func (c *column) text(v reflect.Value) (text string, quoted, ok bool) {
	if c.optional && v.IsZero() {
		return "", false, false
	}
	if v.Kind() == reflect.Pointer {
		v = v.Elem()
	}
	switch {
	case c.instant:
		return events.Instant(v.Int()).String(), true, true
	case v.Kind() == reflect.Bool:
		return strconv.FormatBool(v.Bool()), false, true
	case v.CanFloat():
		return strconv.FormatFloat(v.Float(), 'f', -1, 64), false, true
	case v.CanInt():
		return strconv.FormatInt(v.Int(), 10), false, true
	}
	return v.String(), !c.json, true
}

type csvRows[R any] struct {
	w       *csv.Writer
	columns []column
	begun   bool
	cells   []string
}

func (c *csvRows[R]) write(list []R) error {
	if !c.begun {
		c.begun = true
		for i := range c.columns {
			c.cells = append(c.cells, c.columns[i].name)
		}
		if err := c.w.Write(c.cells); err != nil {
			return err
		}
	}
	for i := range list {
		v := reflect.ValueOf(&list[i]).Elem()
		for n := range c.columns {
			c.cells[n], _, _ = c.columns[n].text(v.Field(c.columns[n].index))
		}
		if err := c.w.Write(c.cells); err != nil {
			return err
		}
	}
	return nil
}

func (c *csvRows[R]) group() error { return nil }

func (c *csvRows[R]) close() error {
	c.w.Flush()
	return c.w.Error()
}

type jsonRows[R any] struct {
	w       *bufio.Writer
	columns []column
	line    []byte
}

func (j *jsonRows[R]) write(list []R) error {
	for i := range list {
		v := reflect.ValueOf(&list[i]).Elem()
		j.line = append(j.line[:0], '{')
		for n := range j.columns {
			text, quoted, ok := j.columns[n].text(v.Field(j.columns[n].index))
			if !ok {
				continue
			}
			if len(j.line) > 1 {
				j.line = append(j.line, ',')
			}
			j.line = append(append(append(j.line, '"'), j.columns[n].name...), `":`...)
			if quoted {
				b, err := json.Marshal(text)
				if err != nil {
					return fmt.Errorf("column %s: %w", j.columns[n].name, err)
				}
				text = string(b)
			}
			j.line = append(j.line, text...)
		}
		if _, err := j.w.Write(append(j.line, '}', '\n')); err != nil {
			return err
		}
	}
	return nil
}

func (j *jsonRows[R]) group() error { return nil }

func (j *jsonRows[R]) close() error { return j.w.Flush() }

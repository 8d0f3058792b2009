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
	return &parquetRows[R]{w: parquet.NewGenericWriter[R](to, options...), columns: leavesOf(columnsOf[R]())}
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

// pageRows is how many rows a column gets at once. The library ends a page between two calls, so a page is larger than asked for by the text of that
// many rows at most.
const pageRows = 100

func (p *parquetRows[R]) write(list []R) error {
	for len(list) > 0 {
		n := min(len(list), pageRows, groupRows-p.rows)
		for i, w := range p.w.ColumnWriters() {
			p.values = p.columns[i].values(p.values[:0], unsafe.Pointer(unsafe.SliceData(list)), n, unsafe.Sizeof(list[0]))
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

// values appends the cells of the column in n rows of a size, of which the first is at rows. They share the texts of the rows.
func (c *column) values(to []parquet.Value, rows unsafe.Pointer, n int, size uintptr) []parquet.Value {
	switch c.kind {
	case reflect.String:
		return cells(c, to, rows, n, size, textValue)
	case reflect.Int32:
		return cells(c, to, rows, n, size, parquet.Int32Value)
	case reflect.Int64:
		return cells(c, to, rows, n, size, parquet.Int64Value)
	case reflect.Bool:
		return cells(c, to, rows, n, size, parquet.BooleanValue)
	case reflect.Float64:
		return cells(c, to, rows, n, size, parquet.DoubleValue)
	case reflect.Map, reflect.Slice:
		return c.nested(to, rows, n, size)
	}
	panic("export: column " + c.name + " is of type " + c.kind.String())
}

// cells is values for a column of type T.
func cells[T comparable](c *column, to []parquet.Value, rows unsafe.Pointer, n int, size uintptr, value func(T) parquet.Value) []parquet.Value {
	var zero T
	for i := range n {
		at, present := unsafe.Add(rows, uintptr(i)*size+c.offset), 0
		if c.pointer {
			at = *(*unsafe.Pointer)(at)
		}
		if c.optional {
			if at == nil || !c.pointer && *(*T)(at) == zero {
				to = append(to, parquet.NullValue().Level(0, 0, c.at))
				continue
			}
			present = 1
		}
		to = append(to, value(*(*T)(at)).Level(0, present, c.at))
	}
	return to
}

// column is a column of a table, from the tag of its member.
type column struct {
	name  string
	index int
	// instant says that its number is a time, json that its text is JSON, and optional that its zero value means that it is absent.
	instant, json, optional bool
	// kind is the type of its member, or of what that points to, and offset the place in the row.
	kind    reflect.Kind
	pointer bool
	offset  uintptr
	// leaf and at are which column of Parquet this is: see leavesOf.
	leaf leaf
	at   int
}

func columnsOf[R any]() (list []column) {
	t := reflect.TypeFor[R]()
	for i := range t.NumField() {
		f := t.Field(i)
		name, options, _ := strings.Cut(f.Tag.Get("parquet"), ",")
		c := column{name: name, index: i, instant: strings.Contains(options, "timestamp"), json: f.Tag.Get("is") == "json", optional: strings.Contains(options, "optional"), kind: f.Type.Kind(), offset: f.Offset}
		if c.kind == reflect.Pointer { // which needs no option
			c.kind, c.pointer, c.optional = f.Type.Elem().Kind(), true, true
		}
		list = append(list, c)
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
	case c.kind == reflect.Map || c.kind == reflect.Slice:
		return nestedText(v), false, true
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

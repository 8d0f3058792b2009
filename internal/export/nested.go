package export

import (
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"unsafe"

	"github.com/parquet-go/parquet-go"
)

// A column whose member is a map[string]string is a MAP, and one whose member is a []string is a LIST: in Parquet, columns of texts with a level that says how
// many a row has. In CSV and JSON it is JSON. Nil is absent, and empty is empty.

// leaf is which column of a nested one this is.
type leaf int

const (
	leafWhole leaf = iota // the column is not nested, or is not taken apart
	leafKey
	leafValue
	leafElement
)

// The levels of a nested column: absent, present and empty, present with an entry.
const (
	levelAbsent = iota
	levelEmpty
	levelEntry
)

// leavesOf returns the columns that Parquet has for those of a row, numbered in its order.
func leavesOf(columns []column) (list []column) {
	for _, c := range columns {
		leaves := []leaf{leafWhole}
		switch c.kind {
		case reflect.Map:
			leaves = []leaf{leafKey, leafValue}
		case reflect.Slice:
			leaves = []leaf{leafElement}
		}
		for _, l := range leaves {
			c.leaf, c.at = l, len(list)
			list = append(list, c)
		}
	}
	return list
}

// nested is values for a column of a map or a list.
func (c *column) nested(to []parquet.Value, rows unsafe.Pointer, n int, size uintptr) []parquet.Value {
	for i := range n {
		at := unsafe.Add(rows, uintptr(i)*size+c.offset)
		var texts []string
		present := false
		if c.leaf == leafElement {
			texts = *(*[]string)(at)
			present = texts != nil
		} else {
			m := *(*map[string]string)(at)
			present = m != nil
			texts = slices.Sorted(maps.Keys(m))
			if c.leaf == leafValue {
				for k, key := range texts {
					texts[k] = m[key]
				}
			}
		}
		switch {
		case !present:
			to = append(to, parquet.NullValue().Level(0, levelAbsent, c.at))
		case len(texts) == 0:
			to = append(to, parquet.NullValue().Level(0, levelEmpty, c.at))
		}
		for k, text := range texts {
			repeated := min(k, 1)
			to = append(to, textValue(text).Level(repeated, levelEntry, c.at))
		}
	}
	return to
}

// textValue shares the text, which the library only reads.
func textValue(text string) parquet.Value {
	return parquet.ByteArrayValue(unsafe.Slice(unsafe.StringData(text), len(text)))
}

// nestedText returns a map or a list as JSON.
func nestedText(v reflect.Value) string {
	b, err := json.Marshal(v.Interface())
	if err != nil { // of texts it always is
		panic(err)
	}
	return string(b)
}

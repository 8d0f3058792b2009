package exprlang

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"
	"strconv"
	"time"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/jsontext"
)

// MaxResultBytes bounds the result of one template, text or function. It is above every limit of inputs and outputs (at most
// 512 KiB), so that those limits give their own messages, and small enough that a definition that repeats a large input
// cannot exhaust the memory of an owner.
const MaxResultBytes = 2 << 20

var errTooLarge = fmt.Errorf("result is larger than %d bytes", MaxResultBytes)

// encode writes a value as compact JSON with sorted keys and without HTML escapes.
func encode(v any) (json.RawMessage, error) { return appendValue(nil, v) }

func appendValue(b []byte, v any) ([]byte, error) { return appendAt(b, v, 0) }

// appendAt appends a value at the given depth.
func appendAt(b []byte, v any, depth int) ([]byte, error) {
	if len(b) > MaxResultBytes {
		return nil, errTooLarge
	}
	if depth > maxDepth {
		return nil, errDepth
	}
	switch v := v.(type) {
	case nil:
		return append(b, "null"...), nil
	case bool:
		return strconv.AppendBool(b, v), nil
	case int:
		return strconv.AppendInt(b, int64(v), 10), nil
	case float64:
		return appendFloat(b, v)
	case string:
		return appendString(b, v)
	case json.Number:
		return append(b, v...), nil
	case time.Duration:
		return appendString(b, events.Duration(v).String())
	case []any:
		return appendList(b, depth, len(v), func(i int) any { return v[i] })
	case map[string]any:
		return appendObject(b, depth, v)
	}
	return appendOther(b, reflect.ValueOf(v), depth)
}

// appendOther appends the other types that functions of expr return: typed lists, maps with other keys, sized numbers.
func appendOther(b []byte, v reflect.Value, depth int) ([]byte, error) {
	switch v.Kind() {
	case reflect.Slice, reflect.Array:
		return appendList(b, depth, v.Len(), func(i int) any { return v.Index(i).Interface() })
	case reflect.Map:
		m, _, err := stringMap(v.Interface())
		if err != nil {
			return nil, err
		}
		return appendObject(b, depth, m)
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return strconv.AppendInt(b, v.Int(), 10), nil
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return strconv.AppendUint(b, v.Uint(), 10), nil
	case reflect.Float32:
		return appendFloat(b, v.Float())
	}
	return nil, fmt.Errorf("a result of the type %s is not JSON", v.Type())
}

func appendList(b []byte, depth, n int, at func(int) any) ([]byte, error) {
	b = append(b, '[')
	var err error
	for i := range n {
		if i > 0 {
			b = append(b, ',')
		}
		if b, err = appendAt(b, at(i), depth+1); err != nil {
			return nil, err
		}
	}
	return append(b, ']'), nil
}

func appendObject(b []byte, depth int, m map[string]any) ([]byte, error) {
	b = append(b, '{')
	var err error
	for i, k := range slices.Sorted(maps.Keys(m)) {
		if i > 0 {
			b = append(b, ',')
		}
		if b, err = appendString(b, k); err != nil {
			return nil, err
		}
		b = append(b, ':')
		if b, err = appendAt(b, m[k], depth+1); err != nil {
			return nil, err
		}
	}
	return append(b, '}'), nil
}

func appendFloat(b []byte, f float64) ([]byte, error) {
	if math.IsNaN(f) || math.IsInf(f, 0) {
		return nil, errors.New("a result is not a JSON number")
	}
	enc, err := json.Marshal(f)
	return append(b, enc...), err
}

func appendString(b []byte, s string) ([]byte, error) {
	if len(b)+len(s) > MaxResultBytes {
		return nil, errTooLarge
	}
	return jsontext.AppendQuoted(b, s), nil
}

// text returns a value as it appears inside a string: a string unchanged, null as nothing, the rest as JSON.
func text(v any) (string, error) {
	switch v := v.(type) {
	case nil:
		return "", nil
	case string:
		return v, nil
	}
	b, err := encode(v)
	return string(b), err
}

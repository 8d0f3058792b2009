package exprlang

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/expr-lang/expr/file"
)

// Error says where a source does not compile.
type Error struct {
	// Pointer is the JSON pointer of the string within a template; empty for a lone string.
	Pointer string
	// Offset is the byte of the string at which the fault lies.
	Offset  int
	Message string
}

func (e *Error) Error() string {
	if e.Pointer == "" {
		return e.Message
	}
	return e.Pointer + ": " + e.Message
}

// Errors is every fault of a source. Compile, CompileString and CompileCondition return no other type of error.
type Errors []*Error

func (e Errors) Error() string {
	s := make([]string, len(e))
	for i, f := range e {
		s[i] = f.Error()
	}
	return strings.Join(s, "; ")
}

// fault makes one line of an error of expr, whose own text draws the source, and finds its place.
func fault(src string, err error) *Error {
	var f *file.Error
	if !errors.As(err, &f) {
		return &Error{Message: err.Error()}
	}
	offset := 0
	for n := 0; n < f.From && offset < len(src); n++ {
		_, size := utf8.DecodeRuneInString(src[offset:])
		offset += size
	}
	return &Error{Offset: offset, Message: explain(f.Message)}
}

// explain adds what a reader of expr's own manual would otherwise wonder about.
func explain(message string) string {
	for name, why := range refusedBuiltins {
		if message == "unknown name "+name {
			return name + " is not available: " + why
		}
	}
	return message
}

// evalError is an error of the evaluation of one expression, without expr's drawing of the source.
func evalError(src string, err error) error {
	var f *file.Error
	if errors.As(err, &f) {
		if f.Prev == nil {
			return fmt.Errorf("${ %s }: %s", abbreviate(src), abbreviate(f.Message)) // it may repeat a value
		}
		err = f.Prev
	}
	return fmt.Errorf("${ %s }: %w", abbreviate(src), err)
}

// NullError is a member or element that an expression wants of null. The validator of definitions asks for it, to
// warn of mappings that fail where an output is null.
type NullError struct {
	// Path is what was null.
	Path          []string
	text, missing string
}

func (e *NullError) Error() string { return e.text + " is null, so it has no " + e.missing }

// abbreviate keeps messages, which land in facts, short.
func abbreviate(s string) string {
	const most = 200
	s = strings.Join(strings.Fields(s), " ")
	if len(s) <= most {
		return s
	}
	cut := most
	for cut > 0 && !utf8.RuneStart(s[cut]) {
		cut--
	}
	return s[:cut] + "..."
}

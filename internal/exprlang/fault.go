package exprlang

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/expr-lang/expr/file"

	"github.com/sagalog/sagalog/events"
)

// Error is a fault of a source that does not compile, and its place.
type Error struct {
	// Pointer is the JSON pointer of the string within a template; empty for a lone string.
	Pointer string
	// Offset is the position of the fault in the string, in bytes.
	Offset  int
	Message string
	// unknown is the name that is not known, if that is the fault.
	unknown string
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

// fault reduces an error of expr, whose text contains a drawing of the source, to one line and finds its place.
func fault(src string, err error) *Error {
	var f *file.Error
	if !errors.As(err, &f) {
		return &Error{Message: err.Error()}
	}
	unknown, _ := strings.CutPrefix(f.Message, "unknown name ")
	if unknown == f.Message {
		unknown = ""
	}
	return &Error{Offset: runeOffset(src, f.From), Message: explain(f.Message), unknown: unknown}
}

// in turns offsets that count the runes of a source into bytes.
func (e Errors) in(src string) Errors {
	for _, f := range e {
		f.Offset = runeOffset(src, f.Offset)
	}
	return e
}

// shifted returns the faults of an expression that begins at an offset.
func (e Errors) shifted(offset int) Errors {
	for _, f := range e {
		f.Offset += offset
	}
	return e
}

// explain adds why a function of expr's manual is not available here.
func explain(message string) string {
	message = plainWords(message)
	for name, why := range refusedBuiltins {
		if message == "unknown name "+name {
			return name + " is not available: " + why
		}
	}
	return message
}

var (
	numberTypes = regexp.MustCompile(`\b(json\.Number|float64|int)\b([^(]|$)`)
	parseErrors = regexp.MustCompile(`strconv\.\w+: parsing "([^"]*)": (value out of range|invalid syntax)`)
)

// typeErrors are in the messages of expr that name types, and typeWords are our words for these.
var (
	typeErrors = []string{"invalid operation", "invalid argument", "mismatched types"}
	typeWords  = strings.NewReplacer("json.Number", "long number", "float64", "decimal", "int", "integer")
)

// plainWords replaces the words of Go in a message of expr.
func plainWords(message string) string {
	aboutTypes := func(what string) bool { return strings.Contains(message, what) }
	if message = parseErrors.ReplaceAllString(message, "$1 is a number that an expression cannot hold"); !slices.ContainsFunc(typeErrors, aboutTypes) {
		return message
	}
	tooLong := strings.Contains(message, "json.Number")
	message = numberTypes.ReplaceAllStringFunc(message, func(found string) string { return typeWords.Replace(found) })
	if tooLong {
		message += " (a long number has more digits than an integer of 64 bits or a decimal of 17 digits: it can be passed on, but not calculated with)"
	}
	return message
}

// evalError is an error of the evaluation of one expression, without expr's drawing of the source.
func evalError(src string, err error) error {
	var f *file.Error
	if errors.As(err, &f) {
		if f.Prev == nil {
			return fmt.Errorf("${ %s }: %s", abbreviate(src), abbreviate(plainWords(f.Message))) // it may repeat a value
		}
		err = f.Prev
	}
	if plain := plainWords(err.Error()); plain != err.Error() {
		return fmt.Errorf("${ %s }: %s", abbreviate(src), abbreviate(plain))
	}
	return fmt.Errorf("${ %s }: %w", abbreviate(src), err)
}

// NullError is the error for a member or element of null. The validator of definitions looks for it, to warn about mappings that
// fail if an output is null.
type NullError struct {
	// Path leads to the null value.
	Path          []string
	text, missing string
}

func (e *NullError) Error() string { return e.text + " is null, so it has no " + e.missing }

// maxQuotedBytes keeps messages short, because they are stored in facts.
const maxQuotedBytes = 200

func abbreviate(s string) string {
	return events.Clip(strings.Join(strings.Fields(s), " "), maxQuotedBytes)
}

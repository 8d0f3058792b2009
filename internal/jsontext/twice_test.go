package jsontext_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sagalog/sagalog/internal/jsontext"
)

func TestANameThatAnObjectHasTwiceIsFound(t *testing.T) {
	t.Parallel()
	many := func(last string) string {
		var b strings.Builder
		for i := range 40 {
			fmt.Fprintf(&b, `"n%d":0,`, i)
		}
		return "{" + b.String() + `"` + last + `":1}`
	}
	for text, want := range map[string]string{
		`{"a":1,"a":2}`:                                   "7 a",
		`{"a":1,"b":{"a":1, "c":0}}`:                      "",
		` [{"a":{"x":[]}},{"b":{"k":{},"l":[ ],"k":""}}]`: "38 k",
		`{"a":1,"\u0061":2}`:                              "7 a",
		`{"é":1,"é":2}`:                                   "8 é",
		`{"a":"a","b":["a","a"],"":0}`:                    "",
		`{}`:                                              "",
		`[ ]`:                                             "",
		`"a"`:                                             "",
		``:                                                "",
		`{"a":1,"a"`:                                      "",
		many("n3"):                                        fmt.Sprint(strings.LastIndex(many("n3"), `"n3"`), " n3"),
		many("n39"):                                       fmt.Sprint(strings.LastIndex(many("n39"), `"n39"`), " n39"),
		many("n40"):                                       "",
		strings.Repeat("[", 200) + strings.Repeat("]", 200): "",
	} {
		at, name, found := jsontext.Twice([]byte(text))
		got := ""
		if found {
			got = fmt.Sprint(at, " ", name)
		}
		require.Equal(t, want, got, text)
	}
}

func BenchmarkTwice(b *testing.B) {
	text := []byte(`{"id":"order-4711","workflow":"order","input":{"customer":"c-7","lines":[{"item":"lamp","price":40,"n":1},{"item":"bulb","price":5,"n":3}],"address":{"street":"Main","zip":"12345","city":"Berlin"}},"labels":{"region":"north","tenant":"t-1"},"deadline":"10m"}`)
	b.SetBytes(int64(len(text)))
	b.ReportAllocs()
	for b.Loop() {
		if _, _, found := jsontext.Twice(text); found {
			b.Fatal("a name was found twice")
		}
	}
}

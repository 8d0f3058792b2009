package exprlang_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sagalog/sagalog/internal/exprlang"
)

func BenchmarkTemplate(b *testing.B) {
	for _, c := range []struct{ name, template string }{
		{"path", `"${ input.nested.x }"`},
		{"paths", `{"order":"${ task.id }","amount":"${ input.amount }","y":"${ input.nested.x.y }"}`},
		{"text", `"/api/${ input.id }/${ input.n }"`},
		{"expression", `"${ input.n + 1 }"`},
	} {
		b.Run(c.name, func(b *testing.B) {
			t, err := exprlang.Compile(json.RawMessage(c.template), vars...)
			require.NoError(b, err)
			raw := map[string]json.RawMessage{
				"input": json.RawMessage(`{"id":"a/b","amount":1.10,"n":3,"list":[3,1,2],"nested":{"x":{"y":[10,20]}},"flag":true}`),
				"task":  json.RawMessage(`{"id":"t1","run":1}`),
			}
			b.ReportAllocs()
			for b.Loop() {
				if _, err := t.Eval(exprlang.NewScope(raw)); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkCondition(b *testing.B) {
	for _, c := range []struct{ name, source string }{
		{"equal", `input.pickup.region != input.dropoff.region`},
		{"literal", `input.pickup.region == "north"`},
		{"greater", `input.amount > 10`},
		{"both", `input.amount > 10 && input.pickup.region == "north"`},
	} {
		b.Run(c.name, func(b *testing.B) {
			t, err := exprlang.CompileCondition(c.source, vars...)
			require.NoError(b, err)
			raw := map[string]json.RawMessage{
				"input": json.RawMessage(`{"amount":12,"pickup":{"region":"north"},"dropoff":{"region":"south"}}`),
			}
			b.ReportAllocs()
			for b.Loop() {
				if _, err := t.Eval(exprlang.NewScope(raw)); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

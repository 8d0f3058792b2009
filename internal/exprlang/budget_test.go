package exprlang_test

import (
	"encoding/json"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sagalog/sagalog/internal/exprlang"
)

// large is an input near the limit of a submission.
func large() json.RawMessage {
	list := make([]int, 40_000)
	for i := range list {
		list[i] = i
	}
	index := map[string]int{}
	for i := range 2_000 {
		index[fmt.Sprint("k", i)] = i
	}
	b, err := json.Marshal(map[string]any{"list": list, "index": index, "nested": [][]int{list[:20_000]}, "text": strings.Repeat("a", 100_000), "spaces": strings.Repeat(" ", 50_000),
		"wide": wide(20_000), "pattern": strings.Repeat(".{0,1000}", 200)})
	if err != nil {
		panic(err)
	}
	return b
}

// wide is an object of many members.
func wide(n int) map[string]int {
	m := map[string]int{}
	for i := range n {
		m[fmt.Sprint("k", i)] = i
	}
	return m
}

// One line of a definition must not stop an owner, so an expression that would take minutes or gigabytes fails early.
// An operator or a function is one step of the machine, however large its arguments are.
func TestAnExpressionCannotTakeTheOwnerDown(t *testing.T) {
	input := large()
	for i, src := range []string{
		`count(input.list, # in input.list)`,
		`count(input.list, -1 in input.list)`,
		`count(1..300000, input.nested == input.nested)`,
		`count(1..300000, input.text < input.text)`,
		`count(1..300000, input.text contains "b")`,
		`count(1..300000, input.text endsWith input.spaces)`,
		`count(1..300000, input.text matches "(a|b|c)*d")`,
		`input.text matches ".{0,999}.{0,999}.{0,999}.{0,999}d"`,
		`input.text matches input.pattern`,
		`count(1..300000, string(#) matches "a{1,900}" + string(#))`,
		`count(1..300000, sum(input.list) == 1)`,
		`count(1..300000, median(input.list) == 1)`,
		`count(1..300000, max(input.nested) == 1)`,
		`count(1..300000, len(input.text) == 1)`,
		`count(1..300000, len(trim(input.spaces)) == 1)`,
		`count(1..300000, len(split(input.text, "q")) == 1)`,
		`count(1..300000, indexOf(input.text, "b") == 1)`,
		`count(1..300000, input.text[1:] + "1" == "")`,
		`groupBy(1..300000, input.text)`,
		`sortBy(1..300000, input.text)`,
		`uniq(input.list)`,
		`uniq(map(1..100, input.text[#:]))`,
		`max(reduce(1..40, [#acc, #acc], 1))`,
		`toJSON(reduce(1..40, [#acc, #acc, #acc, #acc], 1))`,
		`reduce(1..40, [#acc, #acc], 1) == reduce(1..40, [#acc, #acc], 1)`,
		`reduce(1..40, [#acc, #acc], 1)`,
		`reduce(1..300000, [#acc], 1)`,
		`toJSON(reduce(1..300000, [#acc], 1))`,
		`flatten(reduce(1..300000, [#acc], 1))`,
		`1..100000000`,
		`count(1..300000, #` + strings.Repeat(` + #`, 500) + ` > 0)`,
		`count(1..300000, # > 0` + strings.Repeat(` and # > 0`, 400) + `)`,
		`count(1..300000, # * 0.1 * 0.1 > 0)`,
		`count(1..100000, 10 ** 300 > 0)`,
		`count(1..300000, input.wide.k0 > 0)`,
		`reduce(1..60, #acc + #acc, "xxxxxxxxxxxxxxxx")`,
	} {
		t.Run(fmt.Sprintf("%d %.60s", i, src), func(t *testing.T) {
			raw, err := json.Marshal("${ " + src + " }")
			require.NoError(t, err)
			tmpl, err := exprlang.Compile(raw, "input")
			require.NoError(t, err)
			s := exprlang.NewScope(map[string]json.RawMessage{"input": input})
			allocated := allocated(func() { _, err = tmpl.Eval(s) }) // without the budget these take minutes to days
			require.Error(t, err)
			require.Less(t, len(err.Error()), 1000, "an error message does not repeat large values")
			require.Less(t, allocated, uint64(256<<20))
		})
	}
}

// The budget belongs to a decision: two hundred expensive expressions in one mapping cost no more than a few of them.
func TestAllExpressionsOfADecisionShareOneBudget(t *testing.T) {
	for _, src := range []string{"${ len(groupBy(1..100000, # + input.z)) }", "${ len(1..100000) }"} {
		one, err := json.Marshal(src)
		require.NoError(t, err)
		list := func(n int) json.RawMessage {
			return json.RawMessage("[" + strings.Repeat(string(one)+",", n-1) + string(one) + "]")
		}
		eval := func(n int) (err error) {
			tmpl, err := exprlang.Compile(list(n), "input")
			require.NoError(t, err)
			_, err = tmpl.Eval(exprlang.NewScope(map[string]json.RawMessage{"input": json.RawMessage(`{"z":1}`)}))
			return err
		}
		few := allocated(func() { require.NoError(t, eval(2)) })
		many := allocated(func() { err = eval(200) })
		require.ErrorContains(t, err, "for the same decision")
		require.Less(t, many, 10*few+(16<<20), src)
	}
}

// Values are decoded once, but there may be many of them, and a template may go through a wide object for each of its paths.
func TestDecodingDrawsOnTheBudget(t *testing.T) {
	text := json.RawMessage(`"` + strings.Repeat("a", 1<<20) + `"`)
	scope := func() *exprlang.Scope {
		vars := map[string]json.RawMessage{"wide": []byte(`{"k":1` + strings.Repeat(`,"w":1`, 50_000) + `}`)}
		for i := range 40 {
			vars[fmt.Sprint("v", i)] = text
		}
		return exprlang.NewScope(vars)
	}
	names := []string{"wide"}
	sum, paths := "0", `"${ wide.k }"`
	for i := range 40 {
		names = append(names, fmt.Sprint("v", i))
		sum += fmt.Sprintf(" + (v%d != nil ? 1 : 0)", i)
	}
	for _, template := range []string{`"${ ` + sum + ` }"`, "[" + paths + strings.Repeat(","+paths, 9_999) + "]"} {
		tmpl, err := exprlang.Compile(json.RawMessage(template), names...)
		require.NoError(t, err)
		_, err = tmpl.Eval(scope())
		require.ErrorContains(t, err, "for the same decision")
	}
}

// Ordinary expressions over large inputs still work.
func TestALargeInputIsWithinTheBudget(t *testing.T) {
	t.Parallel()
	input := large()
	for src, want := range map[string]string{
		`len(input.list)`: `40000`, `count(input.list, # in [1, 2, 3])`: `3`, `max(input.list) - min(input.list)`: `39999`,
		`sum(input.list) / len(input.list) > 19999`: `true`, `len(toJSON(input.list)) > 100000`: `true`, `39999 in input.list`: `true`,
		`input.text matches "^a+$"`: `true`, `count(input.list, string(#) matches "^[0-9]{2}$")`: `90`, `len(filter(input.list, # > 5)) == 39994`: `true`,
		`all(input.list, # < len(input.list))`: `true`, `count(input.list[0:5000], string(#) + "k" not in input.index)`: `5000`,
		`all(input.list, input.text != "")`: `true`, `input.list == input.list`: `true`, `len(uniq(input.list[0:1000]))`: `1000`,
	} {
		tmpl, err := exprlang.Compile(json.RawMessage(fmt.Sprintf("%q", "${ "+src+" }")), "input")
		require.NoError(t, err, src)
		got, err := tmpl.Eval(exprlang.NewScope(map[string]json.RawMessage{"input": input}))
		require.NoError(t, err, src)
		require.Equal(t, want, string(got), src)
	}
}

// A literal pattern is refused, with its position, before a matcher of hundreds of megabytes is built.
func TestAPatternThatRepeatsTooMuchDoesNotCompile(t *testing.T) {
	for source, says := range map[string]string{
		strings.Repeat(".{0,1000}", 400): "repeats too much",
		strings.Repeat("x", 5000):        "longer than 4096 bytes",
		"[+":                             "missing closing ]",
		"((a{30}){30}){2}":               "invalid repeat count",
	} {
		allocated := allocated(func() {
			_, err := exprlang.CompileString(`é ${ 1 == 1 && "a" matches "`+source+`" }`, nil, "input")
			require.ErrorContains(t, err, says)
			require.Equal(t, 20, err.(exprlang.Errors)[0].Offset)
		})
		require.Less(t, allocated, uint64(16<<20))
	}
}

// allocated returns how many bytes a function allocates.
func allocated(do func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	do()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

package reference

import (
	"encoding/json"
	"fmt"

	"github.com/sagalog/sagalog/internal/exprlang"
)

// Expressions returns the page of the operators and functions of expressions. The results of the examples are calculated.
func Expressions() ([]byte, error) {
	p := begin("Expressions", "What may stand between `${` and `}` in workflows and in the files of agents. [Writing workflows](../workflows.md#expressions) says which names expressions see, and how exact numbers\n"+
		"are. If an expression is the whole text, its result keeps its type; inside a longer text it is inserted as text. `$${` stands for `${` itself. The results on this page were calculated.")
	for _, group := range exprlang.Examples() {
		p.head(2, group.Title)
		p.text(group.Text)
		var rows [][]string
		for _, x := range group.Examples {
			result, err := evaluate(x.Expression)
			if err != nil {
				return nil, err
			}
			rows = append(rows, []string{code(x.Name), sentence(x.What), code("${ " + x.Expression + " }"), code(result)})
		}
		p.table([]string{"", "what it gives", "example", "result"}, rows)
	}
	return p.bytes(), nil
}

func evaluate(expression string) (string, error) {
	source, err := json.Marshal("${ " + expression + " }")
	if err != nil {
		return "", err
	}
	t, err := exprlang.Compile(source, "input")
	if err != nil {
		return "", fmt.Errorf("the example %s: %w", expression, err)
	}
	result, err := t.Eval(exprlang.NewScope(map[string]json.RawMessage{"input": exprlang.ExampleInput}))
	if err != nil {
		return "", fmt.Errorf("the example %s: %w", expression, err)
	}
	return string(result), nil
}

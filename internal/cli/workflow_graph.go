package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/sagalog/sagalog/scheduler"
	"github.com/spf13/cobra"
)

var graphFormats = []string{formatText, "mermaid", "dot"}

func graphCommand(d Deps) *cobra.Command {
	c := &cobra.Command{
		Use: "graph FILE|NAME[@VERSION]", Short: "Draw the steps of a definition", Args: cobra.ExactArgs(1),
		Long: "Draw the steps of a definition: what each needs, its condition, the pivot, and (dotted) which undo follows which.\n" +
			definitionArguments,
		Example: "  sagalog workflow graph workflow.yaml\n  sagalog workflow graph drone-delivery@2 -o mermaid\n  sagalog workflow graph workflow.yaml -o dot | dot -Tsvg > workflow.svg",
		RunE: func(cmd *cobra.Command, args []string) error {
			format, err := formatOf(cmd, graphFormats)
			if err != nil {
				return err
			}
			def, err := definitionOf(cmd, d, args[0])
			if err != nil {
				return err
			}
			g := graphOf(def)
			switch format {
			case "mermaid":
				g.mermaid(cmd.OutOrStdout())
			case "dot":
				g.dot(cmd.OutOrStdout())
			default:
				g.text(cmd.OutOrStdout())
			}
			return nil
		},
	}
	return formatsOf(c, graphFormats)
}

// stepGraph is a definition with the order of its undos.
type stepGraph struct {
	*scheduler.Definition
	number map[string]int
	// undoes holds for each step with an undo the nearest steps before it that have one. Their undos follow, if all of them completed.
	undoes map[string][]string
}

func graphOf(d *scheduler.Definition) *stepGraph {
	g := &stepGraph{d, map[string]int{}, map[string][]string{}}
	for i := range d.Steps {
		g.number[d.Steps[i].ID] = i
	}
	for i := range d.Steps {
		if d.Steps[i].Undo != nil {
			g.undoes[d.Steps[i].ID] = g.undoable(&d.Steps[i], map[string]bool{})
		}
	}
	return g
}

// undoable returns the nearest steps with an undo among the needs of a step.
func (g *stepGraph) undoable(s *scheduler.Step, seen map[string]bool) (list []string) {
	for _, need := range s.Needs {
		before := &g.Steps[g.number[need]]
		switch {
		case seen[need]:
		case before.Undo != nil:
			list = append(list, need)
		default:
			seen[need] = true
			list = append(list, g.undoable(before, seen)...)
			continue
		}
		seen[need] = true
	}
	return list
}

// label says what a step is, a fact a line.
func label(s *scheduler.Step) []string {
	lines := []string{s.ID}
	if s.Title != "" {
		lines = append(lines, s.Title)
	}
	switch {
	case len(s.Sleep) > 0:
		lines = append(lines, "sleep "+string(s.Sleep))
	case len(s.Child) > 0:
		lines = append(lines, "workflow "+s.ChildWorkflow())
	case len(s.Wait) > 0:
		lines = append(lines, "wait for "+signals(s.Wait))
	case s.Operation != "":
		lines = append(lines, "agent "+s.Agent+", operation "+s.Operation)
	default:
		lines = append(lines, "agent "+s.Agent)
	}
	if s.If != "" {
		lines = append(lines, "if "+s.If)
	}
	if s.For != nil {
		lines = append(lines, s.For.String())
	}
	if s.Pivot {
		lines = append(lines, "pivot")
	}
	return lines
}

// signals names the signals that a step waits for.
func signals(wait json.RawMessage) string {
	var one struct{ Signal json.RawMessage }
	var name string
	var names []string
	_ = json.Unmarshal(wait, &one) // the definition was checked
	if json.Unmarshal(one.Signal, &name) == nil {
		return name
	}
	_ = json.Unmarshal(one.Signal, &names)
	return strings.Join(names, " or ")
}

// text prints the steps in an order in which they may run.
func (g *stepGraph) text(out io.Writer) {
	head := g.Workflow
	if g.Title != "" {
		head += ": " + g.Title
	}
	fmt.Fprintln(out, Printable(head))
	for i := range g.Steps {
		s := &g.Steps[i]
		parts := label(s)[1:]
		if len(s.Needs) > 0 {
			parts = append([]string{"needs " + strings.Join(s.Needs, ", ")}, parts...)
		}
		if s.Undo != nil {
			undo := "undo"
			if after := g.undoes[s.ID]; len(after) > 0 {
				undo += ", then the undo of " + strings.Join(after, ", ")
			}
			parts = append(parts, undo)
		}
		line := "  " + s.ID
		if len(parts) > 0 {
			line += ": " + strings.Join(parts, "; ")
		}
		fmt.Fprintln(out, Printable(line))
	}
}

// mermaid prints a flowchart. The nodes have numbers, since a step may have the name of a keyword.
func (g *stepGraph) mermaid(out io.Writer) {
	escape := strings.NewReplacer("&", "&amp;", `"`, "&quot;", "<", "&lt;", ">", "&gt;", "#", "&num;")
	fmt.Fprintln(out, "flowchart TD")
	for i := range g.Steps {
		var lines []string
		for _, l := range label(&g.Steps[i]) {
			lines = append(lines, escape.Replace(Printable(l)))
		}
		left, right := `["`, `"]`
		if g.Steps[i].Pivot {
			left, right = `{{"`, `"}}`
		}
		fmt.Fprintf(out, "  s%d%s%s%s\n", i, left, strings.Join(lines, "<br/>"), right)
	}
	for i := range g.Steps {
		arrow := "-->"
		if g.Steps[i].If != "" {
			arrow = "-->|if|"
		}
		for _, need := range g.Steps[i].Needs {
			fmt.Fprintf(out, "  s%d %s s%d\n", g.number[need], arrow, i)
		}
	}
	for i := range g.Steps {
		for _, before := range g.undoes[g.Steps[i].ID] {
			fmt.Fprintf(out, "  s%d -.->|undo| s%d\n", i, g.number[before])
		}
	}
}

// dot prints the graph for Graphviz.
func (g *stepGraph) dot(out io.Writer) {
	fmt.Fprintf(out, "digraph %s {\n  node [shape=box];\n", strconv.Quote(g.Workflow))
	for i := range g.Steps {
		s := &g.Steps[i]
		shape := ""
		if s.Pivot {
			shape = ", shape=hexagon"
		}
		fmt.Fprintf(out, "  %q [label=%s%s];\n", s.ID, dotText(strings.Join(label(s), "\n")), shape)
	}
	for i := range g.Steps {
		s := &g.Steps[i]
		for _, need := range s.Needs {
			style := ""
			if s.If != "" {
				style = " [label=if]"
			}
			fmt.Fprintf(out, "  %q -> %q%s;\n", need, s.ID, style)
		}
		for _, before := range g.undoes[s.ID] {
			fmt.Fprintf(out, "  %q -> %q [style=dotted, label=undo, constraint=false];\n", s.ID, before)
		}
	}
	fmt.Fprintln(out, "}")
}

// dotText quotes a text: DOT knows no escapes but these.
func dotText(s string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`).Replace(printableLines(s)) + `"`
}

package main

import (
	"bytes"
	"fmt"
	"go/ast"
	"reflect"
	"slices"
	"strconv"
	"strings"
)

// writer writes the codec of structs.
type writer struct {
	*pkg
	b bytes.Buffer
	// words holds the string types with constants that are read: those values need no allocation.
	words map[string]bool
	// raw is the method that writes raw JSON.
	raw string
}

func (g *writer) line(format string, args ...any) { fmt.Fprintf(&g.b, format+"\n", args...) }

// member is a field that is encoded in JSON.
type member struct {
	field, name string
	typ         ast.Expr
	// omit says that the member is left out if it is empty.
	omit bool
	// owner is the struct with the field, doc the comment of the field, and marks are those of its tag schema.
	owner, doc string
	marks      []string
}

// has says whether the member has a mark.
func (m *member) has(mark string) bool { return slices.Contains(m.marks, mark) }

// members returns the members of a struct in order, including the members of embedded structs.
func (g *writer) members(name string) (list []member) {
	s, ok := g.types[name].(*ast.StructType)
	if !ok {
		failf("%s is not a struct", name)
	}
	for _, f := range s.Fields.List {
		if len(f.Names) == 0 {
			list = append(list, g.members(source(f.Type))...)
		}
		for _, field := range f.Names {
			if !field.IsExported() {
				continue
			}
			tag := []string{""}
			var marks []string
			if f.Tag != nil {
				text, _ := strconv.Unquote(f.Tag.Value)
				tag = strings.Split(reflect.StructTag(text).Get("json"), ",")
				marks = strings.FieldsFunc(reflect.StructTag(text).Get("schema"), func(r rune) bool { return r == ',' })
			}
			if len(tag) > 2 || tag[0] == "" || tag[0] == "-" || len(tag) == 2 && tag[1] != "omitempty" && tag[1] != "omitzero" {
				failf("events.%s.%s has no tag, or one that is not known here: %q", name, field.Name, tag)
			}
			list = append(list, member{field.Name, tag[0], f.Type, len(tag) == 2, name, comment(f.Doc, f.Comment), marks})
		}
	}
	if len(list) > 64 {
		failf("%s has %d members; Reader.Once tells 64 apart", name, len(list))
	}
	return list
}

// kind is how a type is encoded.
type kind int

const (
	text kind = iota + 1
	word
	number
	flag
	raw
	own
	object
	pointer
	list
	dictionary
)

func (g *writer) kind(t ast.Expr) kind {
	switch t := t.(type) {
	case *ast.StarExpr:
		return pointer
	case *ast.ArrayType:
		return list
	case *ast.MapType:
		return dictionary
	case *ast.SelectorExpr:
		if source(t) == "json.RawMessage" {
			return raw
		}
	case *ast.StructType:
		return object
	case *ast.Ident:
		switch t.Name {
		case "string":
			return text
		case "bool":
			return flag
		case "int", "int32", "int64", "uint64":
			return number
		}
		switch {
		case g.own[t.Name]:
			return own
		case len(g.pkg.words[t.Name]) > 0:
			return word
		case g.types[t.Name] != nil:
			return g.kind(g.types[t.Name])
		}
	}
	failf("a %s cannot be encoded", source(t))
	return 0
}

// reached returns the structs of the lists and all that they contain.
func (g *writer) reached(lists ...[]string) map[string]bool {
	found := map[string]bool{}
	for todo := slices.Concat(lists...); len(todo) > 0; todo = todo[1:] {
		if name := todo[0]; !found[name] {
			found[name] = true
			for _, m := range g.members(name) {
				if of := element(m.typ); g.kind(of) == object {
					todo = append(todo, source(of))
				}
			}
		}
	}
	return found
}

// element returns the type that a pointer points to, or the element type of a list or map.
func element(t ast.Expr) ast.Expr {
	switch t := t.(type) {
	case *ast.StarExpr:
		return element(t.X)
	case *ast.ArrayType:
		return element(t.Elt)
	case *ast.MapType:
		return element(t.Value)
	}
	return t
}

// object writes the methods of a struct.
func (g *writer) object(name string, sized bool) {
	members := g.members(name)
	g.writes("write", name, members)
	if name == canonical {
		sorted := slices.SortedFunc(slices.Values(members), func(a, b member) int { return strings.Compare(a.name, b.name) })
		g.raw = "w.Canonical"
		g.writes("writeCanonical", name, sorted)
		g.raw = "w.Raw"
	}
	g.line("func (v *%s) read(r *jsontext.Reader) (seen uint64) {\nfor ok := r.Begin('{'); ok; ok = r.More('{') {\nswitch string(r.Name()) {", name)
	for i, m := range members {
		g.line("case %q:\nr.Once(&seen, 1<<%d)", m.name, i)
		g.read("v."+m.field, m.typ)
	}
	g.line("default:\nr.Doubt()\n}\n}\nreturn seen\n}\n")
	if sized {
		g.sizes(name, members)
	}
}

// writes generates a method that writes the members in order.
func (g *writer) writes(method, name string, members []member) {
	g.line("func (v *%s) %s(w *jsontext.Writer) {", name, method)
	end, lead := "w.B = append(w.B, '}')", "{"
	if members[0].omit {
		g.line("from := len(w.B)")
		end, lead = "w.End(from)", ","
	}
	for _, m := range members {
		g.guarded(m, func() { g.write("`"+lead+strconv.Quote(m.name)+":`", "v."+m.field, m.typ, m.omit) })
		lead = ","
	}
	g.line("%s\n}\n", end)
}

// guarded writes the output of code, inside the condition under which the member is present.
func (g *writer) guarded(m member, code func()) {
	if !m.omit {
		code()
		return
	}
	g.line("if "+g.filled(m.typ)+" {", "v."+m.field)
	code()
	g.line("}")
}

// filled returns the condition under which a value is not empty.
func (g *writer) filled(t ast.Expr) string {
	switch g.kind(t) {
	case text, word:
		return `%s != ""`
	case flag:
		return "%s"
	case pointer:
		return "%s != nil"
	case raw, list, dictionary:
		return "len(%s) > 0"
	}
	if _, ok := g.types[source(t)].(*ast.StructType); ok {
		return "%s != (" + source(t) + "{})"
	}
	return "%s != 0"
}

// write writes the code that writes a value after its name. The name is a literal of everything before the value.
func (g *writer) write(name, v string, t ast.Expr, filled bool) {
	switch g.kind(t) {
	case text, word:
		g.line("w.Text(%s, %s)", name, convert("string", v, t))
	case flag:
		g.line("w.Bool(%s, %s)", name, v)
	case number:
		if source(t) == "uint64" {
			g.line("w.Uint(%s, %s)", name, v)
		} else {
			g.line("w.Int(%s, %s)", name, convert("int64", v, t))
		}
	case raw:
		g.line("%s(%s, %s)", g.raw, name, v)
	case own, object:
		g.line("w.Literal(%s)\n%s.write(w)", name, v)
	case pointer:
		g.orNull(name, v, filled, func() {
			of := t.(*ast.StarExpr).X
			if g.kind(of) != object {
				v = "*" + v
			}
			g.write(name, v, of, false)
		})
	case list:
		g.orNull(name, v, filled, func() {
			g.line("w.Literal(%s)\nw.B = append(w.B, '[')\nfor i := range %s {\nif i > 0 {\nw.B = append(w.B, ',')\n}", name, v)
			g.write("``", v+"[i]", t.(*ast.ArrayType).Elt, false)
			g.line("}\nw.B = append(w.B, ']')")
		})
	case dictionary:
		g.orNull(name, v, filled, func() {
			of := t.(*ast.MapType)
			g.line("w.Literal(%s)\nfrom := len(w.B)\nvar room [jsontext.Few]%s", name, source(of.Key))
			g.line("for _, key := range jsontext.SortedKeys(room[:0], %s) {\nw.Text(`,`, %s)\nvalue := %s[key]", v, convert("string", "key", of.Key), v)
			g.write("`:`", "value", of.Value, false)
			g.line("}\nw.End(from)")
		})
	}
}

// orNull writes null for nil, and otherwise the output of code.
func (g *writer) orNull(name, v string, filled bool, code func()) {
	if filled {
		code()
		return
	}
	g.line("if %s == nil {\nw.Literal(%s)\nw.Literal(\"null\")\n} else {", v, name)
	code()
	g.line("}")
}

// read writes the code that reads a value into v.
func (g *writer) read(v string, t ast.Expr) {
	switch g.kind(t) {
	case text:
		if source(t) == "string" {
			g.line("r.Text(&%s)", v)
		} else {
			g.line("r.Text((*string)(&%s))", v)
		}
	case word:
		g.words[source(t)] = true
		g.line("%s = %s(word(r))", v, source(t))
	case flag:
		g.line("%s = r.Bool()", v)
	case number:
		g.line("%s = r.%s()", v, strings.ToUpper(source(t)[:1])+source(t)[1:])
	case raw:
		g.line("r.Raw(&%s)", v)
	case own, object:
		g.line("%s.read(r)", v)
	case pointer:
		of := t.(*ast.StarExpr).X
		g.line("%s = new(%s)", v, source(of))
		if g.kind(of) != object {
			v = "*" + v
		}
		g.read(v, of)
	case list:
		of := t.(*ast.ArrayType).Elt
		g.line("%s = make(%s, 0, jsontext.Few)\nfor ok := r.Begin('['); ok; ok = r.More('[') {\nvar item %s", v, source(t), source(of))
		g.readLocal("item", of)
		g.line("%s = append(%s, item)\n}", v, v)
	case dictionary:
		of := t.(*ast.MapType)
		g.line("%s = %s{}\nfor n, ok := 1, r.Begin('{'); ok; n, ok = n+1, r.More('{') {\nkey := %s", v, source(t), convert(source(of.Key), "r.Key()", ast.NewIdent("string")))
		g.line("var value %s", source(of.Value))
		g.readLocal("value", of.Value)
		g.line("if %s[key] = value; len(%s) < n {\nr.Doubt()\n}\n}", v, v)
	}
}

// readLocal writes the code that reads a value into a variable that moves before reading ends.
func (g *writer) readLocal(v string, t ast.Expr) {
	switch g.kind(t) {
	case text:
		g.line("%s = %s", v, convert(source(t), "r.String()", ast.NewIdent("string")))
	case raw, object:
		g.read(v, t)
		g.line("r.Settle()")
	default:
		g.read(v, t)
	}
}

// sizes writes a method that returns the approximate size of the output of write.
func (g *writer) sizes(name string, members []member) {
	g.line("// size returns about how many bytes write writes.\nfunc (v *%s) size() int {", name)
	fixed := 2
	for _, m := range members {
		if !m.omit {
			fixed += len(m.name) + 4
		}
	}
	g.line("n := %d", fixed)
	for _, m := range members {
		g.guarded(m, func() {
			size := g.size("v."+m.field, m.typ)
			if m.omit {
				size = strconv.Itoa(len(m.name)+4) + " + " + size
			}
			g.line("n += %s", size)
		})
	}
	g.line("return n\n}\n")
}

// size returns an expression for the approximate size of a value.
func (g *writer) size(v string, t ast.Expr) string {
	switch g.kind(t) {
	case raw:
		return "len(" + v + ")"
	case text, word:
		return "2 + len(" + v + ")"
	case flag, number:
		return "5"
	case object:
		return v + ".size()"
	case list, dictionary:
		return "32*len(" + v + ")"
	case pointer:
		if of := t.(*ast.StarExpr).X; g.kind(of) == object {
			return v + ".size()"
		}
	}
	return "26" // an instant and its quotes
}

// convert returns the expression v of the type t as a value of the type to.
func convert(to, v string, t ast.Expr) string {
	if source(t) == to {
		return v
	}
	return to + "(" + v + ")"
}

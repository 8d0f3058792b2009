package main

import (
	"go/ast"
	"reflect"
	"regexp"
	"slices"
	"strings"
)

// comment returns the text of comments as one paragraph, or several.
func comment(groups ...*ast.CommentGroup) string {
	var parts []string
	for _, g := range groups {
		for part := range strings.SplitSeq(g.Text(), "\n\n") {
			if part = strings.Join(strings.Fields(part), " "); part != "" {
				parts = append(parts, part)
			}
		}
	}
	return strings.Join(parts, "\n\n")
}

// says describes a type by its comment. Its words follow, each with its comment.
func (b *builder) says(typ, name string) string {
	list := []string{b.inWords(b.docs[typ], typ)}
	if typ != name {
		list[0] = strings.Replace(list[0], typ, name, 1)
	}
	for _, c := range b.pkg.words[typ] {
		if c.doc != "" {
			list = append(list, b.inWords(c.doc, typ))
		}
	}
	return strings.TrimSpace(strings.Join(list, "\n\n"))
}

// memberSays describes a member by the comment of its field.
func (b *builder) memberSays(m *member) string {
	text := b.inWords(m.doc, m.owner)
	if rest, ok := strings.CutPrefix(text, m.field); ok && (rest[:1] == " " || rest[:1] == ",") {
		text = m.name + rest
	}
	return midSentence.ReplaceAllStringFunc(text, func(found string) string {
		if member := b.memberOf(m.owner, found[2:]); member != "" {
			return found[:2] + member
		}
		return found
	})
}

// midSentence is a word with a capital that does not begin a sentence, with what stands before it.
var midSentence = regexp.MustCompile(`[a-z,(] [A-Z][a-z]+\b`)

// goName is a name that nobody would take for a word: StartBy, and not Start.
var goName = regexp.MustCompile(`\[?\b(?:([A-Z]\w*)\.)?([A-Z][a-z0-9]+[A-Z]\w*|(?:ID|[A-Z][a-z]+)\b)\]?`)

// reference sends the reader of a comment to a name of Go, or to the comment of the package.
var reference = regexp.MustCompile(`(?:[:,] see|\. See) (?:([A-Z][\w.]*\w)|"[^"]+" in the package comment)\.`)

// inWords replaces the names of fields and constants by those of members and by their words, and leaves out references to what is no root: other
// languages know no Go.
func (b *builder) inWords(text, owner string) string {
	text = reference.ReplaceAllStringFunc(text, func(found string) string {
		if _, ok := b.names[reference.FindStringSubmatch(found)[1]]; ok {
			return found
		}
		return "."
	})
	return goName.ReplaceAllStringFunc(text, func(found string) string {
		bare := strings.Trim(found, "[]")
		typ, name, qualified := strings.Cut(bare, ".")
		if !qualified {
			typ, name = owner, bare
		}
		if c := b.constant(name); c != nil && inner(name) {
			return "`" + c.value + "`"
		}
		switch member := b.memberOf(typ, name); {
		case member != "" && qualified:
			return b.name(typ) + "." + member
		case member != "" && inner(name):
			return member
		}
		return bare
	})
}

// memberOf returns the name of the member for a field of a struct, "" if it has no such field.
func (b *builder) memberOf(typ, field string) string {
	s, ok := b.types[typ].(*ast.StructType)
	if !ok {
		return ""
	}
	for _, f := range s.Fields.List {
		if len(f.Names) == 0 {
			if name := b.memberOf(source(f.Type), field); name != "" {
				return name
			}
		}
		if slices.ContainsFunc(f.Names, func(n *ast.Ident) bool { return n.Name == field }) && f.Tag != nil {
			tag, _, _ := strings.Cut(reflect.StructTag(strings.Trim(f.Tag.Value, "`")).Get("json"), ",")
			return tag
		}
	}
	return ""
}

// inner says whether a name has a capital after its first letter and a small one: it is no word of English.
func inner(name string) bool {
	return strings.IndexFunc(name, func(r rune) bool { return r >= 'a' && r <= 'z' }) >= 0 && strings.ToLower(name[1:]) != name[1:]
}

// constant returns the constant with that name, or nil.
func (p *pkg) constant(name string) *constant {
	for _, list := range p.words {
		for i := range list {
			if list[i].name == name {
				return &list[i]
			}
		}
	}
	for i := range p.plain {
		if p.plain[i].name == name {
			return &p.plain[i]
		}
	}
	return nil
}

// text returns the value of a constant.
func (p *pkg) text(name string) string {
	c := p.constant(name)
	if c == nil {
		failf("there is no constant %s that is a text", name)
	}
	return c.value
}

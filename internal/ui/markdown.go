package ui

import (
	"bytes"
	"path"
	"strconv"
	"strings"
	"unicode"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	table "github.com/yuin/goldmark/extension/ast"
	"github.com/yuin/goldmark/text"
)

// markdown reads what GitHub reads. HTML in a document is left out, which is the default.
var markdown = goldmark.New(goldmark.WithExtensions(extension.GFM))

// renderDocument returns a document as HTML, and its title, which is its first heading. Headings have the anchors that GitHub gives them. A row of
// a table that begins with `code` has that as its anchor if it is free, so that the page can link to what a table says about a kind of
// alert. A link goes to a document that is served, by its name, or elsewhere by its scheme. Of any other link and of a picture only the words remain.
func renderDocument(file string, source []byte, served func(name string) bool) (body []byte, title string, err error) {
	doc := markdown.Parser().Parse(text.NewReader(source))
	var links, rows []ast.Node
	taken := map[string]bool{}
	err = ast.Walk(doc, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		if !entering {
			return ast.WalkContinue, nil
		}
		switch n.Kind() {
		case ast.KindHeading:
			words := wordsOf(n, source)
			if title == "" {
				title = words
			}
			n.SetAttributeString("id", []byte(free(anchor(words), taken)))
		case ast.KindLink, ast.KindImage:
			links = append(links, n)
		case table.KindTableRow:
			rows = append(rows, n)
		}
		return ast.WalkContinue, nil
	})
	if err != nil {
		return nil, "", err
	}
	for _, n := range links {
		if link, ok := n.(*ast.Link); ok && readdress(link, file, served) {
			continue
		}
		for c := n.FirstChild(); c != nil; c = n.FirstChild() {
			n.Parent().InsertBefore(n.Parent(), n, c)
		}
		n.Parent().RemoveChild(n.Parent(), n)
	}
	for _, n := range rows {
		if id := codeAtStart(n, source); id != "" && !taken[id] {
			taken[id] = true
			n.SetAttributeString("id", []byte(id))
		}
	}
	var b bytes.Buffer
	err = markdown.Renderer().Render(&b, source, doc)
	return b.Bytes(), title, err
}

// readdress changes a link of a file to where the page serves its destination, and says whether it is served, or lies elsewhere.
func readdress(link *ast.Link, file string, served func(name string) bool) bool {
	to, anchor, anchored := strings.Cut(string(link.Destination), "#")
	if strings.Contains(to, ":") || to == "" {
		return true
	}
	if !strings.HasSuffix(to, ".md") {
		return false
	}
	to = documentName(path.Join(path.Dir(file), to))
	if !served(to) {
		return false
	}
	href := hrefTo(documentName(file), to)
	if anchored {
		href += "#" + anchor
	}
	link.Destination = []byte(href)
	return true
}

// wordsOf returns the words of a node, without their markup.
func wordsOf(n ast.Node, source []byte) string {
	var b strings.Builder
	for c := n.FirstChild(); c != nil; c = c.NextSibling() {
		switch c := c.(type) {
		case *ast.Text:
			b.Write(c.Value(source))
		case *ast.String:
			b.Write(c.Value)
		default:
			b.WriteString(wordsOf(c, source))
		}
	}
	return b.String()
}

// codeAtStart returns the code with which the first cell of a row begins, if it can be an anchor.
func codeAtStart(row ast.Node, source []byte) string {
	cell := row.FirstChild()
	if cell == nil || cell.FirstChild() == nil || cell.FirstChild().Kind() != ast.KindCodeSpan {
		return ""
	}
	if words := wordsOf(cell.FirstChild(), source); words == anchor(words) {
		return words
	}
	return ""
}

// anchor returns the anchor that GitHub gives a heading.
func anchor(words string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == ' ':
			return '-'
		case r == '-' || r == '_' || unicode.IsLetter(r) || unicode.IsDigit(r):
			return unicode.ToLower(r)
		}
		return -1
	}, words)
}

// free returns the anchor, with -1, -2 and so on for headings with the same words, and takes it.
func free(anchor string, taken map[string]bool) string {
	id := anchor
	for i := 1; taken[id]; i++ {
		id = anchor + "-" + strconv.Itoa(i)
	}
	taken[id] = true
	return id
}

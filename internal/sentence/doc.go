// Package sentence says in plain English what a fact of a task means. The API gives its sentences with each history, so that the command line,
// the page and other programs show the same words.
package sentence

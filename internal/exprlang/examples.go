package exprlang

import "encoding/json"

// Example shows an operator or a function.
type Example struct{ Name, What, Expression string }

// Group is a group of examples.
type Group struct {
	Title, Text string
	Examples    []Example
}

// ExampleInput is the input that the examples see.
var ExampleInput = json.RawMessage(`{"name":"Ada","amount":0.1,"tags":["b","a"],"lines":[{"item":"lamp","price":40},{"item":"bulb","price":5}],"note":null}`)

// Examples returns an example of each operator and function, in groups. A test compares the list with the functions that can be called.
func Examples() []Group {
	return []Group{operatorExamples, textExamples, listExamples, loopExamples, numberExamples, objectExamples}
}

var operatorExamples = Group{"Paths and operators", "The examples see the input `" + string(ExampleInput) + "`.", []Example{
	{".", "a member of an object; of a missing member null", "input.name"},
	{"[ ]", "an element of a list, from its end with a minus, or a member by its name", "input.tags[-1]"},
	{"[:]", "a part of a list or a text", "input.name[0:2]"},
	{"?.", "a member, or null if what is before it is null", "input.note?.text"},
	{"??", "the second value if the first is null", `input.note ?? "none"`},
	{"+ - * / %", "arithmetic; + also joins texts", "input.amount * 3"},
	{"** or ^", "a power", "2 ** 10"},
	{"== !=", "equal or not, by value", "input.amount == 0.10"},
	{"< <= > >=", "order of numbers or texts", "input.lines[0].price > 10"},
	{"&& and, || or, ! not", "logic", `input.name == "Ada" and not (input.note == "x")`},
	{"? :", "one of two values", `input.lines[0].price > 10 ? "large" : "small"`},
	{"in, not in", "is it an element of a list, or a member of an object", `"a" in input.tags`},
	{"contains", "does a text contain another", `input.name contains "da"`},
	{"startsWith, endsWith", "does a text begin or end with another", `input.name startsWith "A"`},
	{"matches", "does a text match a regular expression (RE2)", `input.name matches "^A.a$"`},
	{"..", "the whole numbers from the first to the last", "1..4"},
	{"|", "passes a value as the first argument of a function", "input.name | upper()"},
	{"let", "names a value", "let n = len(input.tags); n * n"},
	{"[ ] and { }", "makes a list or an object", `{who: input.name, n: [1, 2]}`},
}}

var textExamples = Group{"Text", "", []Example{
	{"upper", "capital letters", `upper("abc")`},
	{"lower", "small letters", `lower("ABC")`},
	{"trim", "without spaces, or the given characters, at both ends", `trim("  a ")`},
	{"trimPrefix", "without a text at the beginning", `trimPrefix("order-7", "order-")`},
	{"trimSuffix", "without a text at the end", `trimSuffix("a.txt", ".txt")`},
	{"split", "the parts between separators", `split("a,b", ",")`},
	{"splitAfter", "the parts, each with its separator", `splitAfter("a,b", ",")`},
	{"join", "joins texts with a separator", `join(input.tags, "-")`},
	{"replace", "replaces a text by another", `replace("a-b", "-", "+")`},
	{"repeat", "a text several times", `repeat("ab", 2)`},
	{"indexOf", "where a text begins in another, -1 if nowhere", `indexOf("abcb", "b")`},
	{"lastIndexOf", "where it begins last", `lastIndexOf("abcb", "b")`},
	{"hasPrefix", "does a text begin with another", `hasPrefix("order-7", "order-")`},
	{"hasSuffix", "does it end with another", `hasSuffix("a.txt", ".txt")`},
	{"string", "a value as text", "string(7)"},
	{"toJSON", "a value as JSON text", "toJSON({a: 1})"},
	{"fromJSON", "the value of JSON text", `fromJSON("[1, 2]")`},
	{"toBase64", "a text in Base64", `toBase64("abc")`},
	{"fromBase64", "the text of Base64", `fromBase64("YWJj")`},
	{"duration", "a duration of text, to add, compare or print", `duration("90m")`},
}}

var listExamples = Group{"Lists", "", []Example{
	{"len", "the length of a list, a text or an object", "len(input.tags)"},
	{"first", "the first element", "first(input.tags)"},
	{"last", "the last element", "last(input.tags)"},
	{"take", "the first elements", "take(input.tags, 1)"},
	{"get", "an element or a member, null if it does not exist", "get(input.tags, 5)"},
	{"sort", "in ascending order, or \"desc\"", "sort(input.tags)"},
	{"reverse", "in reverse order", "reverse(input.tags)"},
	{"uniq", "without repeated elements", "uniq([1, 1, 2])"},
	{"concat", "one list after another", "concat([1], [2, 3])"},
	{"flatten", "without lists in lists", "flatten([[1], [2, [3]]])"},
}}

var loopExamples = Group{"Each element of a list", "In these functions `#` is the element, `.x` its member x, and `#index` its place.", []Example{
	{"all", "is it true of all elements", "all(input.lines, .price > 1)"},
	{"any", "is it true of one or more", "any(input.lines, .price > 10)"},
	{"one", "is it true of exactly one", "one(input.lines, .price > 10)"},
	{"none", "is it true of no element", "none(input.lines, .price > 50)"},
	{"map", "a value for each element", "map(input.lines, .item)"},
	{"filter", "the elements of which it is true", "filter(input.lines, .price < 10)"},
	{"find", "the first of these, or null", "find(input.lines, .price < 10)"},
	{"findIndex", "the place of the first of these", "findIndex(input.lines, .price < 10)"},
	{"findLast", "the last of these, or null", "findLast(input.lines, .price > 1).item"},
	{"findLastIndex", "the place of the last of these", "findLastIndex(input.lines, .price > 1)"},
	{"count", "how many of these there are", "count(input.lines, .price > 10)"},
	{"sum", "the sum of the elements, or of a value of each", "sum(input.lines, .price)"},
	{"groupBy", "an object with a list for each value", "groupBy([1, 2, 3], # % 2)"},
	{"sortBy", "in the order of a value", "map(sortBy(input.lines, .price), .item)"},
	{"reduce", "one value, from the one so far (`#acc`) and each element", "reduce(1..4, #acc * #, 1)"},
}}

var numberExamples = Group{"Numbers and bits", "", []Example{
	{"abs", "without its sign", "abs(-2)"},
	{"ceil", "the next whole number above", "ceil(1.2)"},
	{"floor", "the next whole number below", "floor(1.8)"},
	{"round", "the nearest whole number", "round(1.5)"},
	{"int", "a whole number", `int("7")`},
	{"float", "a number", `float("1.5")`},
	{"max", "the largest", "max(1, 3, 2)"},
	{"min", "the smallest", "min(1, 3, 2)"},
	{"mean", "the average, approximately", "mean([1, 2])"},
	{"median", "the middle, approximately", "median([1, 2, 9])"},
	{"type", "the name of the type of a value", "type(1.5)"},
	{"bitand", "bits that are in both", "bitand(6, 3)"},
	{"bitor", "bits that are in one or both", "bitor(6, 3)"},
	{"bitxor", "bits that are in one", "bitxor(6, 3)"},
	{"bitnand", "bits of the first that are not in the second", "bitnand(6, 3)"},
	{"bitnot", "all bits the other way", "bitnot(6)"},
	{"bitshl", "bits moved to the left", "bitshl(1, 3)"},
	{"bitshr", "bits moved to the right, with the sign", "bitshr(8, 3)"},
	{"bitushr", "bits moved to the right, without the sign", "bitushr(8, 3)"},
}}

var objectExamples = Group{"Objects", "Members are in the order of their names.", []Example{
	{"keys", "the names of the members", "keys({b: 1, a: 2})"},
	{"values", "their values", "values({b: 1, a: 2})"},
	{"toPairs", "a list of pairs of name and value", "toPairs({b: 1, a: 2})"},
	{"fromPairs", "the object of such a list", `fromPairs([["a", 1]])`},
}}

package rawjson

// Compact appends the value of b without the white space around and within it. It returns false, and dst as it was, if it
// is not sure that b is one JSON value.
func Compact(dst, b []byte) ([]byte, bool) {
	if len(b) > 0 && b[0] == '"' { // texts are most values, and have nothing to leave out
		if end, _ := Text(b, 0); end == len(b) {
			return append(dst, b...), true
		}
	}
	if !Valid(b) {
		return dst, false
	}
	// b is valid, so a quote that is not behind a backslash begins or ends a string.
	from := 0
	for at := 0; at < len(b); {
		switch b[at] {
		case '"':
			at, _ = Text(b, at)
		case ' ', '\n', '\t', '\r':
			dst = append(dst, b[from:at]...)
			at = Space(b, at)
			from = at
		default:
			at++
		}
	}
	return append(dst, b[from:]...), true
}

package jsontext

// Walk goes through the members of an object or the elements of a list:
//
//	w := Begin(b, at)
//	for w.Next() {
//		w.To(Skip(b, w.At))
//	}
//	end := w.End()
//
// The caller passes each value and says where it ends.
type Walk struct {
	b []byte
	// After Next has returned true, At is the place of the value. Otherwise it is the place after the last value. It is
	// negative if the walk is not sure.
	At int
	// Name holds the bytes between the quotes of a member's name. Plain says that they are the name itself: ASCII without
	// escapes.
	Name  []byte
	Plain bool

	closing byte
	begun   bool
}

// Begin begins a walk at an opening brace or bracket.
func Begin(b []byte, at int) Walk { return Walk{b: b, At: at + 1, closing: b[at] + 2} }

// Next goes to the next value. It returns false at the end, and if it is not sure.
func (w *Walk) Next() bool {
	if w.At < 0 {
		return false
	}
	at := Space(w.b, w.At)
	if at >= len(w.b) {
		return w.lost()
	}
	switch {
	case w.b[at] == w.closing:
		w.At = at
		return false
	case !w.begun:
		w.begun = true
	case w.b[at] == ',':
		at = Space(w.b, at+1)
	default:
		return w.lost()
	}
	if w.closing == ']' {
		w.At = at
		return true
	}
	return w.name(at)
}

func (w *Walk) name(at int) bool {
	end, plain := textAt(w.b, at)
	if end < 0 {
		return w.lost()
	}
	w.Name, w.Plain = w.b[at+1:end-1], plain
	at = Space(w.b, end)
	if at >= len(w.b) || w.b[at] != ':' {
		return w.lost()
	}
	w.At = Space(w.b, at+1)
	return true
}

// To sets where the value ends. A negative place means that this is not known.
func (w *Walk) To(end int) { w.At = end }

// End returns the place after the closing brace or bracket, or a negative place if the walk was not sure.
func (w *Walk) End() int {
	if w.At < 0 || w.At >= len(w.b) || w.b[w.At] != w.closing {
		return unsure
	}
	return w.At + 1
}

func (w *Walk) lost() bool {
	w.At = unsure
	return false
}

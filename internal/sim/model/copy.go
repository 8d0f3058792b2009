package model

import (
	"go/token"
	"reflect"
	"unsafe"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/scheduler"
	"github.com/sagalog/sagalog/supervisor"
)

// shared are the types whose values nobody changes once they exist: a copy may point to the same one.
var shared = map[reflect.Type]bool{
	reflect.TypeFor[*events.Fact]():        true,
	reflect.TypeFor[*events.Delta]():       true,
	reflect.TypeFor[*events.Keys]():        true,
	reflect.TypeFor[*events.Definition]():  true,
	reflect.TypeFor[*events.HeldRequest](): true,
	reflect.TypeFor[*events.Record]():      true,
	reflect.TypeFor[*events.Error]():       true,
	reflect.TypeFor[events.Record]():       true,
	reflect.TypeFor[supervisor.Config]():   true,
	reflect.TypeFor[[]byte]():              true,
	// The compiled definitions, which all schedulers share, and find by their hashes.
	fieldType[scheduler.Scheduler]("programs"): true,
}

// fieldType returns the type of a field, which may be unexported.
func fieldType[T any](name string) reflect.Type {
	f, is := reflect.TypeFor[T]().FieldByName(name)
	if !is {
		panic("model: " + reflect.TypeFor[T]().String() + " has no field " + name)
	}
	return f.Type
}

// copies holds how values of each type are copied.
type copies struct {
	flat map[reflect.Type]bool
	// deep holds, for structs of each type, the fields that are not flat.
	deep map[reflect.Type][]int
}

// copyOf returns a deep copy of what p points to. Functions and interfaces are copied unchanged: bind binds those of an
// owner or a state to the copy. Only the interfaces by which the parts of an owner know each other are followed.
func copyOf[T any](known *copies, p *T) *T {
	c := copier{copies: known, seen: make(map[unsafe.Pointer]reflect.Value, 32)}
	return c.value(reflect.ValueOf(p)).Interface().(*T)
}

// copier makes two pointers to one value become two pointers to one copy, because batches and effects are reachable in
// several ways.
type copier struct {
	*copies
	seen map[unsafe.Pointer]reflect.Value
}

func (c *copier) value(v reflect.Value) reflect.Value {
	t := v.Type()
	if c.isFlat(t) {
		return v
	}
	switch v.Kind() {
	case reflect.Pointer:
		if v.IsNil() {
			return v
		}
		if known, ok := c.seen[v.UnsafePointer()]; ok && known.Type() == t {
			return known
		}
		to := reflect.New(t.Elem())
		c.seen[v.UnsafePointer()] = to
		c.into(to.Elem(), v.Elem())
		return to
	case reflect.Map:
		if v.IsNil() {
			return v
		}
		to := reflect.MakeMapWithSize(t, v.Len())
		for i := v.MapRange(); i.Next(); {
			to.SetMapIndex(i.Key(), c.value(i.Value()))
		}
		return to
	case reflect.Slice:
		if v.IsNil() {
			return v
		}
		to := reflect.MakeSlice(t, v.Len(), v.Len())
		if c.isFlat(t.Elem()) {
			reflect.Copy(to, v)
			return to
		}
		for i := range v.Len() {
			c.into(to.Index(i), v.Index(i))
		}
		return to
	case reflect.Interface:
		if v.IsNil() {
			return v
		}
		to := reflect.New(t).Elem()
		to.Set(c.value(v.Elem()))
		return to
	case reflect.Struct, reflect.Array:
		to := reflect.New(t).Elem()
		from := v
		if !v.CanAddr() { // a value of a map
			from = reflect.New(t).Elem()
			from.Set(v)
		}
		c.into(to, from)
		return to
	}
	return v
}

// into copies from one addressable place to another.
func (c *copier) into(to, from reflect.Value) {
	t := from.Type()
	switch {
	case c.isFlat(t):
		to.Set(from)
	case t.Kind() == reflect.Struct:
		to.Set(from)
		for _, i := range c.deepOf(t) {
			c.into(open(to.Field(i)), open(from.Field(i)))
		}
	case t.Kind() == reflect.Array:
		for i := range t.Len() {
			c.into(to.Index(i), from.Index(i))
		}
	default:
		to.Set(c.value(from))
	}
}

func (c *copies) deepOf(t reflect.Type) []int {
	list, known := c.deep[t]
	if !known {
		for i := range t.NumField() {
			if !c.isFlat(t.Field(i).Type) {
				list = append(list, i)
			}
		}
		c.deep[t] = list
	}
	return list
}

// open makes an unexported field of an addressable struct readable and writable.
func open(v reflect.Value) reflect.Value {
	return reflect.NewAt(v.Type(), unsafe.Pointer(v.UnsafeAddr())).Elem()
}

// field returns a field of what p points to, by the names that lead to it.
func field(p any, names ...string) reflect.Value {
	v := reflect.ValueOf(p).Elem()
	for _, n := range names {
		if v.Kind() == reflect.Pointer {
			v = v.Elem()
		}
		f := v.FieldByName(n)
		if !f.IsValid() {
			panic("model: " + v.Type().String() + " has no field " + n)
		}
		v = open(f)
	}
	return v
}

// read returns a field's value as its type.
func read[F any](p any, names ...string) F { return field(p, names...).Interface().(F) }

// isFlat says whether a plain assignment copies a value of the type, because it shares nothing that changes.
func (c *copies) isFlat(t reflect.Type) bool {
	if known, ok := c.flat[t]; ok {
		return known
	}
	is := shared[t]
	switch t.Kind() {
	case reflect.Struct:
		if !is {
			is = true
			for i := range t.NumField() {
				is = c.isFlat(t.Field(i).Type) && is
			}
		}
	case reflect.Array:
		is = is || c.isFlat(t.Elem())
	case reflect.Pointer, reflect.Map, reflect.Slice:
	case reflect.Interface:
		is = !partInterface(t)
	default:
		is = true
	}
	c.flat[t] = is
	return is
}

// partInterface says whether an interface is one by which a part of an owner knows another.
func partInterface(t reflect.Type) bool {
	return t.PkgPath() == reflect.TypeFor[supervisor.Owner]().PkgPath() && !token.IsExported(t.Name())
}

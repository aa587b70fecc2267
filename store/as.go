package store

// As returns s as a T if s is one, or else the first T among the stores that s wraps. It reports false if there is none.
//
// What a store can do beyond [Store] is found by As, never by a type assertion: a type assertion sees only the outermost store. So a Store
// that is made of another one has a method
//
//	Unwrap() Store
//
// that returns the other one, and loses nothing that the other one can do. As calls Unwrap until it finds a T. T is an optional interface of
// this package, such as [Watcher], or the type of a store, such as *pgstore.Store.
//
// The calls of an optional interface that a wrapper does not implement go directly to the store that it wraps. A wrapper that has to
// see or change these calls, because it counts them or adds a prefix to the names, implements the interface: each method calls the same method of
// what As finds in the wrapped store, and returns [errors.ErrUnsupported] if As finds nothing. A wrapper that changes names or claims
// implements all optional interfaces, or has no Unwrap.
func As[T any](s Store) (T, bool) {
	for s != nil {
		if t, ok := s.(T); ok {
			return t, true
		}
		wrapper, ok := s.(interface{ Unwrap() Store })
		if !ok {
			break
		}
		s = wrapper.Unwrap()
	}
	var none T
	return none, false
}

package cgroups

import "sync"

// turns is a set of locks by path. The zero value is ready for use.
type turns struct {
	mu    sync.Mutex
	paths map[string]*turn
}

// turn is the lock of one path. It exists while it has users.
type turn struct {
	sync.Mutex
	users int
}

// take locks a path and returns the function that unlocks it.
func (t *turns) take(path string) (give func()) {
	t.mu.Lock()
	if t.paths == nil {
		t.paths = map[string]*turn{}
	}
	one := t.paths[path]
	if one == nil {
		one = &turn{}
		t.paths[path] = one
	}
	one.users++
	t.mu.Unlock()
	one.Lock()
	return func() {
		one.Unlock()
		t.mu.Lock()
		defer t.mu.Unlock()
		if one.users--; one.users == 0 {
			delete(t.paths, path)
		}
	}
}

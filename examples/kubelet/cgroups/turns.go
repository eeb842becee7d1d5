package cgroups

import "sync"

// turns let one at a time have a path. The zero value is ready for use.
type turns struct {
	mu    sync.Mutex
	paths map[string]*turn
}

// turn is that of a path, for as long as anybody has it or waits for it.
type turn struct {
	sync.Mutex
	users int
}

// take waits for a path, and returns what gives it to the next.
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

package cgroups

import "sync"

// pathLocks is a set of locks by path. The zero value is ready for use.
type pathLocks struct {
	mu    sync.Mutex
	paths map[string]*pathLock
}

// pathLock is the lock of one path. It exists while it has users.
type pathLock struct {
	sync.Mutex
	users int
}

// lock locks a path and returns the function that unlocks it.
func (t *pathLocks) lock(path string) (unlock func()) {
	t.mu.Lock()
	if t.paths == nil {
		t.paths = map[string]*pathLock{}
	}
	one := t.paths[path]
	if one == nil {
		one = &pathLock{}
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

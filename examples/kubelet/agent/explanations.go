package agent

import (
	"sync"

	"k8s.io/apimachinery/pkg/types"
)

// explanations keep why pods do not run all of their containers, as the last sync
// found it.
type explanations struct {
	mu sync.Mutex
	m  map[types.UID]string
}

func newExplanations() *explanations { return &explanations{m: map[types.UID]string{}} }

func (e *explanations) get(uid types.UID) string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.m[uid]
}

// set replaces what is known of a pod; "" says that there is nothing to explain.
func (e *explanations) set(uid types.UID, text string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if text == "" {
		delete(e.m, uid)
	} else {
		e.m[uid] = text
	}
}

func (e *explanations) drop(uid types.UID) { e.set(uid, "") }

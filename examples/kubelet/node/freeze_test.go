package node

import "time"

// Freeze has the effect of a suspension that has just ended.
func (n *Node) Freeze(d time.Duration) {
	n.awake.mu.Lock()
	defer n.awake.mu.Unlock()
	n.awake.last = n.awake.last.Add(-d)
}

package fake

import "iter"

// ring is a list in insertion order with intrusive nodes: adding and removing need no search and no
// allocation.
type ring[T any] struct {
	head, tail *node[T]
	len        int
}

// node is an item's place in at most one ring. The zero node is in no ring.
type node[T any] struct {
	prev, next *node[T]
	in         *ring[T]
	item       T
}

// push appends n with item. n must not be in a ring.
func (r *ring[T]) push(n *node[T], item T) {
	*n = node[T]{prev: r.tail, in: r, item: item}
	if r.tail == nil {
		r.head = n
	} else {
		r.tail.next = n
	}
	r.tail = n
	r.len++
}

// drop removes n from its ring, if any.
func (n *node[T]) drop() {
	if n.in == nil {
		return
	}
	if n.prev == nil {
		n.in.head = n.next
	} else {
		n.prev.next = n.next
	}
	if n.next == nil {
		n.in.tail = n.prev
	} else {
		n.next.prev = n.prev
	}
	n.in.len--
	*n = node[T]{}
}

// all iterates over the items, oldest first. The ring must not change meanwhile.
func (r *ring[T]) all() iter.Seq[T] {
	return func(yield func(T) bool) {
		for n := r.head; n != nil; n = n.next {
			if !yield(n.item) {
				return
			}
		}
	}
}

// store has all objects, with indexes for lists. It is guarded by the runtime's lock.
type store struct {
	sandboxes    map[string]*sandbox
	containers   map[string]*container
	allSandboxes ring[*sandbox]
	all          ring[*container]
	pods         map[string]*podIndex // by the pod UID label
	sandboxNames map[sandboxName]string
	names        map[containerName]string
}

// podIndex has the objects with one pod's UID label.
type podIndex struct {
	sandboxes  ring[*sandbox]
	containers ring[*container]
}

func newStore() store {
	return store{
		sandboxes:    map[string]*sandbox{},
		containers:   map[string]*container{},
		pods:         map[string]*podIndex{},
		sandboxNames: map[sandboxName]string{},
		names:        map[containerName]string{},
	}
}

func (s *store) pod(uid string) *podIndex {
	index := s.pods[uid]
	if index == nil {
		index = &podIndex{}
		s.pods[uid] = index
	}
	return index
}

func (s *store) tidyPod(uid string) {
	if index := s.pods[uid]; index != nil && index.sandboxes.len == 0 && index.containers.len == 0 {
		delete(s.pods, uid)
	}
}

func (s *store) addSandbox(b *sandbox) {
	s.sandboxes[b.id] = b
	s.sandboxNames[b.name] = b.id
	s.allSandboxes.push(&b.inAll, b)
	if uid := b.config.Labels[labelPodUID]; uid != "" {
		s.pod(uid).sandboxes.push(&b.inPod, b)
	}
}

func (s *store) removeSandbox(b *sandbox) {
	delete(s.sandboxes, b.id)
	delete(s.sandboxNames, b.name)
	b.inAll.drop()
	b.inPod.drop()
	s.tidyPod(b.config.Labels[labelPodUID])
}

func (s *store) addContainer(c *container) {
	s.containers[c.id] = c
	s.names[c.name] = c.id
	s.all.push(&c.inAll, c)
	c.sandbox.containers.push(&c.inSandbox, c)
	if uid := c.config.Labels[labelPodUID]; uid != "" {
		s.pod(uid).containers.push(&c.inPod, c)
	}
}

func (s *store) removeContainer(c *container) {
	delete(s.containers, c.id)
	delete(s.names, c.name)
	c.inAll.drop()
	c.inSandbox.drop()
	c.inPod.drop()
	s.tidyPod(c.config.Labels[labelPodUID])
}

package probe

import "time"

// pool shares out the executions of one handler. All is under the Manager's lock.
type pool struct {
	handler Handler
	prober  Prober
	budget  int
	// slowBudget is how many of those may be slow ones, so that containers that do
	// not answer never hold up all others.
	slowBudget    int
	running, slow int
	// spare are the goroutines that wait for jobs, less those that have one there.
	// Without them 10,000 probes at 10 s take 4 ms of CPU a second more.
	spare     int
	jobs      chan *execution
	quickOnes queue
	slowOnes  queue
}

func newPool(h Handler, p Prober, budget int) *pool {
	return &pool{handler: h, prober: p, budget: budget, slowBudget: max(1, budget*3/4), jobs: make(chan *execution, budget)}
}

// enqueue lets a worker wait for a place.
func (p *pool) enqueue(w *worker) {
	if w.slow {
		p.slowOnes.push(w)
	} else {
		p.quickOnes.push(w)
	}
}

func (p *pool) unqueue(w *worker) {
	if w.slow {
		p.slowOnes.remove(w)
	} else {
		p.quickOnes.remove(w)
	}
}

// take returns the worker whose turn it is, nil if there is none or no place.
func (p *pool) take() *worker {
	if p.running >= p.budget {
		return nil
	}
	quick, slow := p.quickOnes.first, p.slowOnes.first
	if p.slow >= p.slowBudget {
		slow = nil
	}
	switch {
	case slow != nil && (quick == nil || slow.due.Before(quick.due)):
		p.slowOnes.remove(slow)
		p.slow++
		p.running++
		return slow
	case quick != nil:
		p.quickOnes.remove(quick)
		p.running++
		return quick
	}
	return nil
}

// release gives a place back.
func (p *pool) release(slow bool) {
	p.running--
	if slow {
		p.slow--
	}
}

// queue is a list of workers, linked by themselves, in order of arrival.
type queue struct {
	first, last *worker
	length      int
}

func (q *queue) push(w *worker) {
	w.previous, w.next = q.last, nil
	if q.last == nil {
		q.first = w
	} else {
		q.last.next = w
	}
	q.last = w
	q.length++
}

func (q *queue) remove(w *worker) {
	if w.previous == nil {
		q.first = w.next
	} else {
		w.previous.next = w.next
	}
	if w.next == nil {
		q.last = w.previous
	} else {
		w.next.previous = w.previous
	}
	w.previous, w.next = nil, nil
	q.length--
}

// overtime is what a Prober may need beyond the timeout, to end what it has begun:
// package exec waits for the runtime to kill the command.
const overtime = 4 * time.Second

// Pool is how the budget of one handler is used.
type Pool struct {
	Handler Handler
	// Budget is how many probes may be executed at a time, Running how many are,
	// and Slow how many of those used up half of their timeout or more the last
	// time.
	Budget, Running, Slow int
	// Stuck is how many of Running take longer than all their tries may, even if each
	// needs 4 s more than its timeout: their Prober ignores its context.
	Stuck int
	// Queued is how many probes wait for a place.
	Queued int
	// Late is for how long the one that waits longest has been due.
	Late time.Duration
}

func (p *pool) describe(now time.Time) Pool {
	out := Pool{
		Handler: p.handler, Budget: p.budget, Running: p.running, Slow: p.slow,
		Queued: p.quickOnes.length + p.slowOnes.length,
	}
	for _, w := range []*worker{p.quickOnes.first, p.slowOnes.first} {
		if w != nil {
			out.Late = max(out.Late, now.Sub(w.due))
		}
	}
	return out
}

package probe

import "time"

// pool allocates the executions of one handler. It is guarded by Manager.mu.
type pool struct {
	handler Handler
	prober  Prober
	budget  int
	// slowBudget bounds the slow executions, so that containers that do not respond never delay
	// all others.
	slowBudget    int
	running, slow int
	// spare is the number of idle goroutines minus the number of jobs. Without idle goroutines,
	// 10,000 probes at 10 s take 4 ms of CPU a second more.
	spare      int
	jobs       chan *execution
	quickQueue queue
	slowQueue  queue
}

func newPool(h Handler, p Prober, budget int) *pool {
	return &pool{handler: h, prober: p, budget: budget, slowBudget: max(1, budget*3/4), jobs: make(chan *execution, budget)}
}

func (p *pool) enqueue(w *worker) {
	if w.slow {
		p.slowQueue.push(w)
	} else {
		p.quickQueue.push(w)
	}
}

func (p *pool) unqueue(w *worker) {
	if w.slow {
		p.slowQueue.remove(w)
	} else {
		p.quickQueue.remove(w)
	}
}

// take returns the next worker, or nil if no worker waits or the budget is used up.
func (p *pool) take() *worker {
	if p.running >= p.budget {
		return nil
	}
	quick, slow := p.quickQueue.first, p.slowQueue.first
	if p.slow >= p.slowBudget {
		slow = nil
	}
	switch {
	case slow != nil && (quick == nil || slow.due.Before(quick.due)):
		p.slowQueue.remove(slow)
		p.slow++
		p.running++
		return slow
	case quick != nil:
		p.quickQueue.remove(quick)
		p.running++
		return quick
	}
	return nil
}

func (p *pool) release(slow bool) {
	p.running--
	if slow {
		p.slow--
	}
}

// queue is a linked list of workers in order of arrival.
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

// overtime is the time beyond the timeout that a Prober may need to clean up: package exec waits
// for the runtime to kill the command.
const overtime = 4 * time.Second

// Pool is the usage of one handler's budget.
type Pool struct {
	Handler Handler
	// Budget is the maximum number of concurrent executions, and Running the current number. Slow
	// is the number of running probes whose previous execution took at least half of its timeout.
	Budget, Running, Slow int
	// Stuck is the number of running executions that exceed all their tries, even with 4 s more
	// than the timeout for each: their Prober ignores its context.
	Stuck int
	// Queued is the number of due probes that wait for a place.
	Queued int
	// Late is the longest delay of a queued probe.
	Late time.Duration
}

func (p *pool) describe(now time.Time) Pool {
	out := Pool{
		Handler: p.handler, Budget: p.budget, Running: p.running, Slow: p.slow,
		Queued: p.quickQueue.length + p.slowQueue.length,
	}
	for _, w := range []*worker{p.quickQueue.first, p.slowQueue.first} {
		if w != nil {
			out.Late = max(out.Late, now.Sub(w.due))
		}
	}
	return out
}

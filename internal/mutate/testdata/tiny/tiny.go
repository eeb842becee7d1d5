// Package tiny is there to be broken.
package tiny

import "errors"

func countdown(n int) int {
	steps := 0
	for n > 0 {
		n--
		steps++
	}
	return steps
}

type pair[T any] struct{ a, b T }

func (p *pair[T]) swap() {
	p.a, p.b = p.b, p.a
}

var errNone = errors.New("none")

func first(list []int) (n int, err error) {
loop:
	for _, n = range list {
		break loop
	}
	if len(list) != 1 && len(list) != 2 { // what go vet suspects with another operator
		err = errNone
	}
	return
}

package tiny

import "testing"

func TestCountdown(t *testing.T) {
	if got := countdown(3); got != 3 {
		t.Errorf("%d steps", got)
	}
}

func TestSwap(t *testing.T) {
	p := pair[int]{1, 2}
	p.swap()
	if p.a != 2 || p.b != 1 {
		t.Error(p)
	}
}

func TestFirst(t *testing.T) {
	if n, err := first([]int{2, 1}); n != 2 || err != nil {
		t.Error(n, err)
	}
	if _, err := first([]int{1}); err != nil {
		t.Error(err)
	}
	if _, err := first(nil); err != errNone {
		t.Error(err)
	}
}

package tiny

import "testing"

func TestCountdown(t *testing.T) {
	if got := countdown(3); got != 3 {
		t.Errorf("%d steps", got)
	}
}

// Package tiny is there to be broken.
package tiny

func countdown(n int) int {
	steps := 0
	for n > 0 {
		n--
		steps++
	}
	return steps
}

package main

import (
	"maps"
	"math"
	"slices"
)

// A spread is what a figure was over the rounds.
type spread struct {
	Median float64 `json:"median"`
	Min    float64 `json:"min"`
	Max    float64 `json:"max"`
}

// spreadOf returns the spread of values. Those that are not numbers were not measured.
func spreadOf(values []float64) spread {
	values = slices.DeleteFunc(slices.Clone(values), func(v float64) bool { return math.IsNaN(v) || math.IsInf(v, 0) })
	if len(values) == 0 {
		return spread{}
	}
	slices.Sort(values)
	n := len(values)
	return spread{(values[(n-1)/2] + values[n/2]) / 2, values[0], values[n-1]}
}

// ratios divides each round's value by the floor's of the same round.
func ratios(values, floor []float64) []float64 {
	var out []float64
	for i, v := range values {
		if i < len(floor) {
			out = append(out, v/floor[i])
		}
	}
	return out
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

func allZero(values []float64) bool {
	return !slices.ContainsFunc(values, func(v float64) bool { return v != 0 })
}

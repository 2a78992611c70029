// SPDX-License-Identifier: MIT
package main
import ("fmt"; "sort"; "strings"; "sync")
func deep(n int) int { if n == 0 { panic("deep") }; return deep(n-1) + 1 }
func try(n int) (s string) { defer func() { s = fmt.Sprint(recover(), n) }(); deep(n); return }
func main() {
	var wg sync.WaitGroup; c := make(chan string, 8)
	for i := 0; i < 8; i++ { wg.Add(1); go func(i int) { defer wg.Done(); c <- try(i * 50) }(i) }
	wg.Wait(); close(c); var r []string
	for s := range c { r = append(r, s) }
	sort.Strings(r); fmt.Println(strings.Join(r, " "), len(fmt.Sprint(make([]int, 1000))))
}

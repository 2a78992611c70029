-- SPDX-License-Identifier: MIT
module Main where
import qualified Control.Exception as E
import Data.List (sort)
fib :: Int -> Integer
fib n = if n < 2 then toInteger n else fib (n - 1) + fib (n - 2)
primes :: [Int]
primes = sieve [2 ..] where sieve (p : xs) = p : sieve [x | x <- xs, x `mod` p /= 0]
main :: IO ()
main = do
  print (fib 15)
  print (take 40 primes)
  print (sort [i * 7919 `mod` 997 | i <- [0 .. 29 :: Int]])
  r <- E.try (E.evaluate (foldr (\x y -> if x > 50 then error "deep" else x + y) 0 [1 .. 100 :: Int]))
  putStrLn (either (\e -> const "caught" (e :: E.Exception)) show r)

      * SPDX-License-Identifier: MIT
       IDENTIFICATION DIVISION.
       PROGRAM-ID. WORK.
       DATA DIVISION.
       WORKING-STORAGE SECTION.
       01 I PIC 9(4).
       01 S PIC 9(9)V99 VALUE 0.
       01 E PIC Z(8)9.99.
       01 T.
          05 A PIC 9(4) OCCURS 20 TIMES.
       PROCEDURE DIVISION.
           PERFORM VARYING I FROM 1 BY 1 UNTIL I > 20
             COMPUTE A(I) = FUNCTION MOD(I * 7919, 9973)
             COMPUTE S = S + A(I) * 1.25
           END-PERFORM.
           SORT A DESCENDING.
           PERFORM VARYING I FROM 1 BY 1 UNTIL I > 5
             DISPLAY A(I)
           END-PERFORM.
           MOVE S TO E.
           DISPLAY "SUM " E.
           STOP RUN.
